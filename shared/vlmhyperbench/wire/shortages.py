"""Body about a model that did not fit: need, have and shortfall of each memory, and what would change it."""

from __future__ import annotations

from typing import Literal

from vlmhyperbench.wire.base import Output


class ShortMemory(Output):
    """A memory that is too small."""

    memory: Literal["accelerator", "machine"]
    need_bytes: int
    have_bytes: int
    shortfall_bytes: int


class MemoryKnob(Output):
    """What a person may change."""

    name: str
    """Path of a value of the run, or a parameter of the engine."""
    to: str | None
    """The value that it should have; None: a smaller one."""
    fixes: bool
    """Whether it is known to make the model fit; otherwise it makes it smaller."""


class MemoryShortage(Output):
    """Why a model was not loaded."""

    model: str
    rows: list[ShortMemory]
    knobs: list[MemoryKnob]
    has_run_out: bool
    """Whether it fitted by its estimate, but ran out of memory while it answered."""
