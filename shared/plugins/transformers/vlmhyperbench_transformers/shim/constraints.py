"""Answers in a format: a grammar of llguidance decides at each step which tokens are allowed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch

from vlmhyperbench_transformers.shim.loading import Loaded
from vlmhyperbench_transformers.shim.refusal import Refusal, invalid

JSON_STYLE = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?"}
"""Whitespace in JSON: at most a space after a comma or a colon, because small models repeat it without end."""


class Constraints:
    """The grammars of one model; without llguidance in its environment, formats are refused."""

    def __init__(self, loaded: Loaded) -> None:
        self._vocabulary = loaded.vocabulary
        self._missing = ""
        try:
            from llguidance.hf import from_tokenizer

            tokenizer = getattr(loaded.processor, "tokenizer", loaded.processor)
            self._tokenizer = from_tokenizer(tokenizer, n_vocab=loaded.vocabulary, eos_token=sorted(loaded.eos) or None)
        except ImportError:
            self._missing = "llguidance is not installed in the engine's environment"
        except Exception as error:  # noqa: BLE001 -- it raises anything for a tokenizer that it does not know
            self._missing = f"llguidance cannot use this model's tokenizer: {error}"

    @property
    def missing(self) -> str:
        """Why no format is available; empty if they are."""
        return self._missing

    def create(self, wanted: Mapping[str, Any]) -> Constraint:
        """Return the constraint of a `response_format`.

        Raises:
            Refusal: formats are not available, or the schema or the pattern is wrong.
        """
        kind = wanted["type"]
        if self._missing:
            raise invalid(f"response_format {kind} is not available: {self._missing}.", "unsupported")
        from llguidance import LLMatcher

        if kind == "regex":
            grammar = LLMatcher.grammar_from_regex(wanted["regex"])
        else:
            schema = wanted["json_schema"]["schema"] if kind == "json_schema" else {"type": "object"}
            grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema), JSON_STYLE)
        matcher = LLMatcher(self._tokenizer, grammar, log_level=0)
        if matcher.is_error():
            reason = (matcher.get_error().strip().splitlines() or ["unknown"])[0]
            raise invalid(f"response_format {kind} cannot be enforced: {reason[:500]}.", "invalid_response_format")
        return Constraint(matcher)


class Constraint:
    """The state of one answer; it is a processor of logits."""

    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher

    def copy(self) -> Constraint:
        """Return the same state for another choice."""
        return Constraint(self._matcher.deep_copy())

    def __call__(self, _ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores with those of forbidden tokens at minus infinity."""
        allowed = torch.frombuffer(bytearray(self._matcher.compute_logit_bias()), dtype=torch.uint8)
        if self._matcher.is_error():
            raise Refusal(400, "invalid_response_format", f"The format broke off: {self._matcher.get_error()[:300]}")
        return scores.masked_fill(allowed[None, : scores.shape[-1]].to(scores.device) == 0, float("-inf"))

    def take(self, token: int) -> bool:
        """Note the token that was chosen, and return whether the answer is complete."""
        self._matcher.consume_token(token)
        return bool(self._matcher.is_stopped())
