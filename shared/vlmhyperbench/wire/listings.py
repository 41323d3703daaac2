"""Bodies of lists of runs: rows of at most a kilobyte, their columns, and the labels that people give to runs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, Field, model_validator

from vlmhyperbench.domain.base import Refused
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.domain.visible import HIDDEN
from vlmhyperbench.wire.base import Input, Output

MAX_TAGS = 50


def _tag(text: str) -> str:
    if HIDDEN.search(text) or "," in text or text != text.strip() or text == "*":
        raise Refused(
            "a tag is a word without commas, without spaces at its ends and without characters that are not shown",
            cure="Write another tag.",
        )
    return text


def _note(text: str) -> str:
    if HIDDEN.search(text.replace("\n", "").replace("\t", "")):
        raise Refused("it holds a character that is not shown", cure="Remove it.")
    return text


Tag = Annotated[str, Field(min_length=1, max_length=40), AfterValidator(_tag)]
Note = Annotated[str, Field(max_length=10_000), AfterValidator(_note)]


class ListedScore(Output):
    """Score of a run's primary metric."""

    metric: str
    value: float | None
    low: float | None = None
    """Bounds of the 95 % interval: `low` and `high`."""
    high: float | None = None
    n: int | None = None
    """Number of answers that have a value."""
    direction: Literal["higher", "lower"] | None = None
    """Which values are better; None if not declared."""


class RunRow(Output):
    """A run as lists show it. Its numbers are those of its stored summary; None until there is one."""

    id: UUID
    experiment_id: UUID | None
    name: str
    state: RunState
    reason: str | None
    """First 120 characters of why it failed."""
    target: str
    backend: str
    task: str
    dataset: str
    scenario: str
    is_paused: bool
    is_cancelling: bool
    priority: int
    total: int | None
    """Number of counted requests; known once the run is INDEXED."""
    done: int
    failed: int
    score: ListedScore | None
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    ttft_p50_ms: float | None
    output_tokens_per_s: float | None
    validity: str | None
    """Whether the speeds count as measurements: `valid`, or why not; None if nothing was timed."""
    peak_memory_bytes: float | None
    cost_total: float | None
    cost_currency: str | None
    tags: list[str]
    has_note: bool
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class Column(Output):
    """A column by which lists of runs are filtered and ordered."""

    name: str
    kind: Literal["text", "number", "time", "yes or no", "list", "value"]
    """How it is compared; a `value` is a number or text, whichever a run has."""
    is_number: bool
    """Whether its values are numbers, so that it can be an axis."""
    direction: Literal["higher", "lower"] | None = None
    """Which values are better, as the runs of a metric state it; None where they state none, or both."""


class Columns(Output):
    """The columns of a project's runs, besides every value of a spec as `spec.<path>`."""

    columns: list[Column]
    tags: dict[str, int]
    """Tag → number of runs that have it, the most frequent first."""
    tasks: dict[str, int] = Field(default_factory=dict)
    """Task → number of its runs, the most frequent first."""


class Axis(Output):
    """A number of the specs in which the runs of an experiment differ."""

    column: str
    """Column of runs that has it, `spec.<path>`."""
    values: list[float]


class Axes(Output):
    """The axes of an experiment's sweeps."""

    axes: list[Axis]


class LabelChange(Input):
    """What changes of a run's labels; what is left out stays."""

    add_tags: Annotated[list[Tag], Field(max_length=MAX_TAGS)] = Field(default_factory=list)
    remove_tags: Annotated[list[Tag], Field(max_length=MAX_TAGS)] = Field(default_factory=list)
    note: Note | None = None
    """New text of the note; empty text removes it."""

    @model_validator(mode="after")
    def _changes_something(self) -> LabelChange:
        if not self.add_tags and not self.remove_tags and self.note is None:
            raise Refused("nothing is to be changed", cure="Give add_tags, remove_tags or note.")
        return self


class Labels(Output):
    """The labels that people gave to a run."""

    run_id: UUID
    tags: list[str]
    note: str
    labelled_by: str | None
    labelled_at: datetime | None
