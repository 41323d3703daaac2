"""A report as a value: sections of blocks that every writer (Markdown, HTML, JSON) can write.

`run_report.run_document` and `comparison_report.comparison_document` build it from values; it holds no clock, no path
and no markup. Texts in it may come from a model or a data set: writers escape all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from vlmhyperbench.analysis.figures import FigureSpec
from vlmhyperbench.analysis.labels import short
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonObject

MAX_DIGITS = 12
MAX_TEXT = 600
"""Cases cut longer questions, references and answers; the CSV files and `samples.parquet` hold them whole."""

COMPARABLE = 0.5
"""Below this similarity a comparison character by character is meaningless, and the whole answer is marked."""

SpanKind = Literal["same", "missing", "extra"]
Tone = Literal["good", "bad", "neutral"]
ColumnKind = Literal["text", "code", "number", "estimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value with its interval; writers draw the interval where they can."""

    value: float | None
    low: float | None = None
    high: float | None = None
    digits: int = 3
    """Decimal places."""
    suffix: str = ""
    """Unit, with the space before it."""
    is_signed: bool = False
    """Whether it is a difference, which is always written with its sign."""
    scale: tuple[float, float] | None = None
    """Ends of the scale on which the interval is drawn; None if it is not drawn."""

    def __post_init__(self) -> None:
        if not 0 <= self.digits <= MAX_DIGITS:
            raise InvalidInput(f"{self.digits} decimals are not between 0 and {MAX_DIGITS}.")
        if self.scale is not None and not self.scale[0] < self.scale[1]:
            raise InvalidInput(f"The scale {self.scale[0]:g} to {self.scale[1]:g} does not ascend.")


Cell = str | int | float | None | Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table."""

    title: str
    kind: ColumnKind = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under columns."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    is_collapsed: bool = False
    """Whether HTML folds it, because it is long and for reference."""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise InvalidInput(
                f"A row of the table {self.name!r} does not have {len(self.columns)} cells, one for each column."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Names and values: configuration, provenance."""

    title: str
    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Verbatim text: a prompt, a command line."""

    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """A list of sentences."""

    title: str
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A piece of an answer that is compared with the nearest reference; a `missing` piece is in the reference only."""

    text: str
    kind: SpanKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The answer of a run to a case, compared with the nearest reference."""

    run: str
    """Name of the run; empty if the report has a single run."""
    spans: tuple[Span, ...]
    tone: Tone
    score: str
    """Label and value of a metric that measures the distance to the references."""
    note: str = ""
    """That the answer was cut off, or that the request failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One sample worth reading, with its images by content hash."""

    key: str
    tags: tuple[str, ...]
    images: tuple[str, ...]
    question: str
    references: tuple[str, ...]
    answers: tuple[Prediction, ...]
    kind: str
    """Kind of mistake or of flip, by which readers filter."""
    tone: Tone
    """Colour of the kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """Samples worth reading, with a note that says how they were chosen."""

    name: str
    title: str
    items: tuple[Case, ...]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTable:
    """Samples to search and sort, stored by column; the columns of `SAMPLE_COLUMNS` have a value for each row."""

    name: str
    note: str
    """What the table holds, and where the other samples are."""
    total: int
    """Number of samples of all runs; the table may hold fewer."""
    runs: tuple[str, ...]
    """Names of the runs; `run` holds indices of it."""
    metrics: tuple[str, ...]
    """Labels of the columns of `scores`."""
    groups: tuple[str, ...]
    """Titles of the columns of `group_values`."""
    run: tuple[int, ...]
    key: tuple[str | None, ...]
    outcome: tuple[str, ...]
    """`right`, a kind of mistake, `failed: …`, `not scored`."""
    question: tuple[str | None, ...]
    references: tuple[tuple[str, ...], ...]
    answer: tuple[str | None, ...]
    parsed: tuple[str | None, ...]
    """The text that the extractor read, where it differs from the answer."""
    fields: tuple[str | None, ...]
    """The score of each field."""
    note_of: tuple[str | None, ...]
    """Error, cut-off, repeat, turn."""
    scores: tuple[tuple[float | None, ...], ...]
    group_values: tuple[tuple[str | None, ...], ...]
    latency_ms: tuple[float | None, ...]
    tokens: tuple[int | None, ...]
    images: tuple[tuple[str, ...], ...]
    """Content hashes."""

    def __post_init__(self) -> None:
        lengths = {len(getattr(self, name)) for name in SAMPLE_COLUMNS}
        has_scores = {len(row) for row in self.scores} <= {len(self.metrics)}
        has_groups = {len(row) for row in self.group_values} <= {len(self.groups)}
        has_runs = set(self.run) <= set(range(len(self.runs)))
        if len(lengths) > 1 or not (has_scores and has_groups and has_runs):
            raise InvalidInput(f"The columns of the samples {self.name!r} do not have the same rows.")


SAMPLE_COLUMNS = tuple(SampleTable.__dataclass_fields__)[6:]
"""Names of the columns that have a value for each row."""

Block = Table | FigureSpec | Facts | Listing | Points | Cases | SampleTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section of a report; `lead` sums it up."""

    name: str
    title: str
    lead: str
    blocks: tuple[Block, ...]
    is_collapsed: bool = False
    """Whether HTML folds it, because it is for reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One of the few numbers at the top."""

    label: str
    value: str
    detail: str
    tone: Tone = "neutral"
    """Colour of the number: `bad` if it is invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A whole report; in `report.json` its fields have the same names."""

    scope: Literal["run", "experiment"]
    id: str
    title: str
    subtitle: str
    state: str
    tone: Tone
    finished_at: str | None
    """When the run or experiment ended, ISO 8601 in UTC."""
    verdict: tuple[str, str, str]
    tiles: tuple[Tile, ...]
    sections: tuple[Section, ...]
    headline: tuple[JsonObject, ...]
    """A row for each run with its main numbers, for programs."""
    runs: Mapping[str, JsonObject]
    """Run id → the run's whole summary, for programs."""

    @property
    def figures(self) -> tuple[FigureSpec, ...]:
        """Every figure, in order."""
        return tuple(block for section in self.sections for block in section.blocks if isinstance(block, FigureSpec))

    @property
    def images(self) -> tuple[str, ...]:
        """Content hashes of all images that cases show, in order, without duplicates."""
        cases = (block for section in self.sections for block in section.blocks if isinstance(block, Cases))
        return tuple(dict.fromkeys(image for block in cases for case in block.items for image in case.images))

    @property
    def further_images(self) -> tuple[str, ...]:
        """Content hashes of images that only the table of samples shows, in order, without duplicates."""
        tables = (block for section in self.sections for block in section.blocks if isinstance(block, SampleTable))
        shown = set(self.images)
        of_samples = dict.fromkeys(image for table in tables for images in table.images for image in images)
        return tuple(image for image in of_samples if image not in shown)


def compare_text(answer: str, references: Sequence[str]) -> tuple[Span, ...]:
    """Mark where an answer differs from the reference that is nearest to it, character by character."""
    shown = cut(answer)
    if not references:
        return (Span(text=shown, kind="same"),) if shown else ()
    expected = max((cut(reference) for reference in references[:8]), key=lambda text: _matcher(text, shown).ratio())
    matcher = _matcher(expected, shown)
    if matcher.ratio() < COMPARABLE:
        return (Span(text=shown, kind="extra"),) if shown else ()
    spans: list[Span] = []
    for operation, from_a, to_a, from_b, to_b in matcher.get_opcodes():
        if operation == "equal":
            spans.append(Span(text=shown[from_b:to_b], kind="same"))
            continue
        if to_a > from_a:
            spans.append(Span(text=expected[from_a:to_a], kind="missing"))
        if to_b > from_b:
            spans.append(Span(text=shown[from_b:to_b], kind="extra"))
    return tuple(spans)


def _matcher(a: str, b: str) -> SequenceMatcher[str]:
    return SequenceMatcher(None, a, b, autojunk=False)


def cut(text: str) -> str:
    """Shorten a long text and append the number of characters that are left out."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… ({len(text) - MAX_TEXT} more characters)"


def write_number(value: float | None, digits: int = 3) -> str:
    """Write a number with fixed decimals and a thin group separator; unknown is a dash."""
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{value:,.{digits}f}"
    if text.startswith("-") and not text.strip("-0.,"):
        text = text[1:]
    return text.replace(",", "\u202f").replace("-", "\u2212")


def write_estimate(estimate: Estimate) -> str:
    """Write a value without its interval."""
    text = write_number(estimate.value, estimate.digits)
    sign = "+" if estimate.is_signed and estimate.value is not None and estimate.value > 0 else ""
    return f"{sign}{text}{estimate.suffix if estimate.value is not None else ''}"


def write_interval(estimate: Estimate) -> str:
    """Write the interval without the value; empty if there is none."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{write_number(estimate.low, estimate.digits)} to {write_number(estimate.high, estimate.digits)}"


def write_cell(cell: Cell) -> str:
    """Write any cell as text."""
    match cell:
        case None:
            return "–"
        case Estimate():
            interval = write_interval(cell)
            return f"{write_estimate(cell)} ({interval})" if interval else write_estimate(cell)
        case bool() | str():
            return str(cell)
        case int():
            return f"{cell:,}".replace(",", "\u202f")
        case _:
            return short(cell)
