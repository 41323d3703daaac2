"""Bodies of `/answers` and of a run that takes its answers from there."""

from __future__ import annotations

from pydantic import JsonValue

from vlmhyperbench.domain.base import Sha256
from vlmhyperbench.registry.importing import Choices
from vlmhyperbench.wire.base import Label, Output
from vlmhyperbench.wire.runs import Priority


class Answers(Output):
    """A file of answers in the neutral form, checked and kept."""

    sha256: Sha256
    format: str
    """What it was read from: `lm-eval`, `inspect` …"""
    tool: str | None
    model: str | None
    task: str | None
    decoding: dict[str, JsonValue]
    answers: int
    samples: int
    """Distinct samples."""
    repeats: int
    """The most answers of one sample."""
    referenced: int
    """Answers whose references the file knows."""
    reported: list[str]
    """Scores that the file reports of its answers."""


class RunImport(Choices):
    """Ask for a run whose answers come from a file."""

    answers: Sha256
    name: Label | None = None
    priority: Priority = 0
