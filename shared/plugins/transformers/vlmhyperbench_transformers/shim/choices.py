"""One choice of an answer while it is decoded: its tokens, its text, and when it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from vlmhyperbench_transformers.shim.answers import Piece
from vlmhyperbench_transformers.shim.asking import Asked
from vlmhyperbench_transformers.shim.constraints import Constraint
from vlmhyperbench_transformers.shim.loading import Loaded
from vlmhyperbench_transformers.shim.sampling import Sampler
from vlmhyperbench_transformers.shim.text import TextStream


class Choice:
    """A choice that is being decoded."""

    def __init__(
        self,
        loaded: Loaded,
        asked: Asked,
        *,
        index: int,
        prompt: Sequence[int],
        max_tokens: int,
        constraint: Constraint | None,
    ) -> None:
        self.index = index
        self.tokens = list(prompt)
        """The prompt's tokens and the answer's."""
        self.positions: Sequence[int] = ()
        """The position of the answer's first token, in each dimension that the model's positions have."""
        self.generated = 0
        self.is_finished = False
        self.sampler = Sampler(loaded, asked, index, prompt, constraint)
        self._max_tokens = max_tokens
        self._constraint = constraint
        self._eos = frozenset() if asked.ignore_eos else loaded.eos
        self._text = TextStream(partial(loaded.decode, skip_special_tokens=asked.skip_special_tokens), asked.stops)

    def add(self, token: int, entry: Mapping[str, Any] | None) -> Piece:
        """Add a token, and return what it adds to the answer."""
        self.tokens.append(token)
        self.generated += 1
        is_complete = self._constraint.take(token) if self._constraint is not None else False
        is_eos = token in self._eos
        text = "" if is_eos else self._text.add(token)
        finish = None
        if is_eos or is_complete or self._text.is_stopped:
            finish = "stop"
        elif self.generated >= self._max_tokens:
            finish = "length"
        if finish is not None:
            text += self._text.end()
            if self._text.is_stopped:
                finish = "stop"
            self.is_finished = True
        return Piece(choice=self.index, text=text, logprobs=(entry,) if entry is not None else (), finish=finish)
