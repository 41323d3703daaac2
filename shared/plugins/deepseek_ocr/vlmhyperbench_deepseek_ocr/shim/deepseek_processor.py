"""The rule against repetition as a processor of logits in vLLM, for each request by its `vllm_xargs`.

vLLM has a processor of the same rule, but it can be imported only together with the model, which needs torchvision.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from deepseek_ngrams import banned_tokens
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import (
    AdapterLogitsProcessor,
)

Ban = Callable[[list[int], torch.Tensor], torch.Tensor]
Rule = tuple[int, int, frozenset[int]]


class NoRepeatedNgrams(AdapterLogitsProcessor):
    """Bans tokens by `ngram_size`, `window_size` and `whitelist_token_ids` of a request's `vllm_xargs`."""

    @classmethod
    def validate_params(cls, params: SamplingParams) -> None:
        """Refuse a rule that cannot be applied; vLLM answers 400.

        Raises:
            ValueError: a number is missing, of the wrong type or out of range.
        """
        _rule(params)

    def is_argmax_invariant(self) -> bool:
        """Whether greedy answers stay the same: they do not."""
        return False

    def new_req_logits_processor(
        self, params: SamplingParams
    ) -> Callable[[list[int], torch.Tensor], torch.Tensor] | None:
        """Return the rule of a request, or None if it has none."""
        rule = _rule(params)
        if rule is None:
            return None
        size, window, allowed = rule

        def ban(output: list[int], logits: torch.Tensor) -> torch.Tensor:
            if banned := banned_tokens(output, size=size, window=window, allowed=allowed):
                logits[list(banned)] = float("-inf")
            return logits

        return ban


def _rule(params: SamplingParams) -> Rule | None:
    given = params.extra_args or {}
    size, window = given.get("ngram_size", 0), given.get("window_size", 90)
    allowed = given.get("whitelist_token_ids", [])
    for name, value in (("ngram_size", size), ("window_size", window)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"{name} must be a whole number of at least 0.")
    if not isinstance(allowed, list) or not all(isinstance(token, int) for token in allowed):
        raise ValueError("whitelist_token_ids must be a list of whole numbers.")
    return (size, window, frozenset(allowed)) if size else None
