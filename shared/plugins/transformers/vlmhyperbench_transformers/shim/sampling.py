"""Choose the next token of one answer from its logits, with transformers' own processors of logits."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from vlmhyperbench_transformers.shim.asking import Asked
from vlmhyperbench_transformers.shim.loading import Loaded


class Sampler:
    """The choice of one answer's tokens; what a request leaves out is the generation config's (`sampling_defaults`).

    Without a `temperature` anywhere it is 1, as OpenAI's API has it; 0 is greedy decoding.
    """

    def __init__(self, loaded: Loaded, asked: Asked, choice: int, prompt: Sequence[int], constraint: Any) -> None:
        """Create the sampler of a choice.

        Args:
            loaded: The model.
            asked: The request.
            choice: Index of the choice, which is added to the seed.
            prompt: Tokens of the prompt.
            constraint: A processor of logits that allows only some tokens, or None.
        """
        config = copy.deepcopy(loaded.model.generation_config)
        default = config.temperature if config.do_sample else None
        temperature = asked.sampling.get("temperature", 1.0 if default is None else default)
        config.do_sample = temperature > 0
        config.temperature = temperature if temperature > 0 else None
        for name in ("top_p", "min_p", "repetition_penalty"):
            if name in asked.sampling:
                setattr(config, name, asked.sampling[name])
        if asked.top_k is not None:
            config.top_k = asked.top_k
        config.min_new_tokens = asked.min_tokens or None
        if asked.logit_bias:
            config.sequence_bias = [[[token], bias] for token, bias in asked.logit_bias.items()]
        device = loaded.device
        config._eos_token_tensor = torch.tensor(sorted(loaded.eos), device=device)  # noqa: SLF001 -- as `generate` does
        processors = loaded.model._get_logits_processor(  # noqa: SLF001 -- what `generate` itself uses
            config, input_ids_seq_length=len(prompt), device=device
        )
        penalty = _Penalties(asked.sampling, len(prompt))
        before = [constraint] if constraint is not None else []
        self._processors = [*before, *([penalty] if penalty.is_active else []), *processors]
        self._is_greedy = not config.do_sample
        self._logprobs = asked.top_logprobs if asked.logprobs else None
        self._generator = None
        if asked.seed is not None:
            self._generator = torch.Generator(device).manual_seed((asked.seed + choice) % 2**63)
        self._loaded = loaded

    @property
    def is_plain(self) -> bool:
        """Whether the token is that of the largest logit, and nothing else is asked for."""
        return self._is_greedy and not self._processors and self._logprobs is None

    def choose(self, logits: torch.Tensor, tokens: Sequence[int]) -> tuple[int, Mapping[str, Any] | None]:
        """Return the next token, and its entry of OpenAI's logprobs if those are asked for.

        Args:
            logits: The logits of the answer, (vocabulary,), of the model as it is.
            tokens: Tokens of the prompt and of the answer.
        """
        raw = logits.float()
        scores = raw[None].clone()
        ids = torch.tensor(tokens, device=scores.device)[None] if self._processors else None
        for processor in self._processors:
            scores = processor(ids, scores)
        if self._is_greedy:
            token = int(scores[0].argmax())
        else:
            token = int(torch.multinomial(scores[0].softmax(-1), 1, generator=self._generator))
        return token, None if self._logprobs is None else self._entry(raw, token, self._logprobs)

    def _entry(self, logits: torch.Tensor, token: int, count: int) -> Mapping[str, Any]:
        logprobs = logits.log_softmax(-1)
        best = logprobs.topk(count) if count else None
        alternatives = zip(best.indices.tolist(), best.values.tolist(), strict=True) if best is not None else ()
        return {
            **self._named(token, float(logprobs[token])),
            "top_logprobs": [self._named(other, logprob) for other, logprob in alternatives],
        }

    def _named(self, token: int, logprob: float) -> dict[str, Any]:
        text = self._loaded.decode([token], skip_special_tokens=False)
        return {"token": text, "logprob": max(logprob, -9999.0), "bytes": list(text.encode("utf-8", "replace"))}


class _Penalties:
    """OpenAI's penalties: a token's logit less presence, and less frequency for each time that the answer has it."""

    def __init__(self, sampling: Mapping[str, float], prompt: int) -> None:
        self._presence = sampling.get("presence_penalty", 0.0)
        self._frequency = sampling.get("frequency_penalty", 0.0)
        self._prompt = prompt

    @property
    def is_active(self) -> bool:
        """Whether it changes anything."""
        return bool(self._presence or self._frequency)

    def __call__(self, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores with the penalties of the answer's tokens."""
        counts = torch.bincount(ids[0, self._prompt :], minlength=scores.shape[-1])
        return scores - counts * self._frequency - (counts > 0) * self._presence
