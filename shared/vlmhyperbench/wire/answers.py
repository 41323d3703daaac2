"""Bodies of `/answers`, and of a request to create a run from uploaded answers."""

from __future__ import annotations

from pydantic import JsonValue

from vlmhyperbench.domain.base import Sha256
from vlmhyperbench.registry.importing import Choices
from vlmhyperbench.wire.base import Label, Output
from vlmhyperbench.wire.runs import Priority


class Answers(Output):
    """An uploaded file of answers in the neutral format, after its validation."""

    sha256: Sha256
    format: str
    """Format of the original file: `lm-eval`, `inspect` …"""
    tool: str | None
    model: str | None
    task: str | None
    decoding: dict[str, JsonValue]
    answers: int
    samples: int
    """Number of distinct samples."""
    repeats: int
    """Maximum number of answers per sample."""
    referenced: int
    """Number of answers whose references are in the file."""
    reported: list[str]
    """Names of the scores that the file reports for its answers."""


class RunImport(Choices):
    """Request to create a run from the answers of an uploaded file."""

    answers: Sha256
    name: Label | None = None
    priority: Priority = 0
