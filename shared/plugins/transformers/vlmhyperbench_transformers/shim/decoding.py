"""The forward passes: a prompt alone, then one token at a time for all answers together.

The prompt's pass is that of transformers' `generate`, with the model's own preparation of inputs, so that every
model that `generate` supports has the same logits. transformers' own continuous batching takes no images.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from vlmhyperbench_transformers.shim.cache import BatchCache, can_join, new_cache
from vlmhyperbench_transformers.shim.choices import Choice
from vlmhyperbench_transformers.shim.loading import Loaded


@dataclass(frozen=True, kw_only=True)
class Prefilled:
    """A prompt after its forward pass."""

    logits: torch.Tensor
    """Logits of the first token, (vocabulary,)."""
    cache: Any
    positions: list[int]
    """Positions of the first token of the answer."""
    joins: bool
    """Whether its answers can be decoded together with others."""


class StepFailed(Exception):
    """A forward pass failed; its cause is the error."""

    def __init__(self, choices: Sequence[Choice], *, is_repeatable: bool) -> None:
        """Describe the failure.

        Args:
            choices: The answers of the pass.
            is_repeatable: Whether their keys and values are whole, so that fewer of them may succeed. Otherwise some
                layers have the pass's token already, and others have not.
        """
        super().__init__(f"The forward pass of {len(choices)} answers failed.")
        self.choices, self.is_repeatable = choices, is_repeatable


class Decoder:
    """The answers in progress: those that are decoded together, and those whose layers need steps of their own."""

    def __init__(self, loaded: Loaded, max_rows: int) -> None:
        self._loaded = loaded
        self._batch = BatchCache(max_rows)
        self._together: list[Choice] = []
        self._alone: dict[Choice, Any] = {}

    @property
    def choices(self) -> list[Choice]:
        """All answers in progress."""
        return [*self._together, *self._alone]

    def prefill(self, inputs: Mapping[str, Any]) -> Prefilled:
        """Run the forward pass of a prompt."""
        model = self._loaded.model
        given = {name: _to(value, self._loaded.device) for name, value in inputs.items()}
        ids = given.pop("input_ids")
        given |= {"past_key_values": new_cache(model.config), "use_cache": True}
        mask = given.setdefault("attention_mask", torch.ones_like(ids))
        positions = torch.arange(ids.shape[1])[None]
        if "position_ids" in self._loaded.accepts:
            positions = model._prepare_position_ids_for_generation(ids, given)  # noqa: SLF001 -- as `generate` does
            given["position_ids"] = positions
        if bool((mask == 1).all()):
            given["attention_mask"] = None
        if "logits_to_keep" in self._loaded.accepts:
            given["logits_to_keep"] = 1
        prepared = model.prepare_inputs_for_generation(ids, is_first_iteration=True, **given)
        output = model(**prepared, return_dict=True)
        return Prefilled(
            logits=output.logits[0, -1],
            cache=output.past_key_values,
            positions=[int(position) + 1 for position in positions[..., -1].flatten().tolist()],
            joins=can_join(output.past_key_values, ids.shape[1]),
        )

    def join(self, prefilled: Prefilled, choices: Sequence[Choice]) -> None:
        """Let the choices of a prompt take part in the next steps."""
        for choice in choices:
            choice.positions = prefilled.positions
            if prefilled.joins:
                self._batch.add(prefilled.cache)
                self._together.append(choice)
            else:
                self._alone[choice] = prefilled.cache if len(choices) == 1 else copy.deepcopy(prefilled.cache)

    def leave(self, choice: Choice) -> None:
        """Remove a choice that is in progress, finished or not."""
        if self._alone.pop(choice, None) is not None:
            return
        row = self._together.index(choice)
        self._batch.remove(row)
        self._together[row] = self._together[-1]
        self._together.pop()

    def step(self) -> Iterator[tuple[Sequence[Choice], torch.Tensor]]:
        """Run a forward pass for the last token of each answer.

        Yields groups of answers with their logits, (answers, vocabulary). Between two groups, answers may leave.

        Raises:
            StepFailed: the pass of one group failed. The groups before it have their next token.
        """
        if self._together:
            together = list(self._together)
            try:
                self._batch.make_room()
                mask = self._batch.mask(self._loaded.device)
                logits = self._forward(together, self._batch.cache, mask)
            except Exception as error:  # a model's code raises anything, and the engine decides who ends
                raise StepFailed(together, is_repeatable=True) from error
            self._batch.advance()
            yield together, logits
        for choice, cache in list(self._alone.items()):
            if choice not in self._alone:
                continue
            try:
                logits = self._forward([choice], cache, None)
            except Exception as error:  # a model's code raises anything, and the engine decides who ends
                raise StepFailed([choice], is_repeatable=False) from error
            yield [choice], logits

    def _forward(self, choices: Sequence[Choice], cache: Any, mask: torch.Tensor | None) -> torch.Tensor:
        device = self._loaded.device
        ids = torch.tensor([[choice.tokens[-1]] for choice in choices], device=device)
        given: dict[str, Any] = {"past_key_values": cache, "attention_mask": mask, "use_cache": True}
        if "position_ids" in self._loaded.accepts:
            positions = [[first + choice.generated - 1 for first in choice.positions] for choice in choices]
            tensor = torch.tensor(positions, device=device)
            given["position_ids"] = tensor.T[..., None] if tensor.shape[1] > 1 else tensor
        prepared = self._loaded.model.prepare_inputs_for_generation(ids, is_first_iteration=False, **given)
        logits: torch.Tensor = self._loaded.decode_step(**prepared, return_dict=True).logits[:, -1]
        return logits


def _to(value: Any, device: torch.device) -> Any:
    return value.to(device) if isinstance(value, torch.Tensor) else value
