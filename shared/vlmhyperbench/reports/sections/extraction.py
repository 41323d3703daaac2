"""How much the scores depend on how answers are read, where a run reads them in several ways."""

from __future__ import annotations

import json
from collections.abc import Sequence

import polars

from vlmhyperbench.reports.document import Block, Cell, Column, Section, Table, write_number
from vlmhyperbench.reports.sections.quality import Quality, digits_of, qualities
from vlmhyperbench.reports.sections.wording import percent, plural
from vlmhyperbench.scoring.extraction import extract
from vlmhyperbench.summaries.answers import ROW
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench.summaries.summary import RunSummary

MAX_ROWS = 24
_CHARS = 120


def extraction(summary: RunSummary, run: RunEvidence) -> Section | None:
    """Lay the extractors' scores out, and list the answers on which they disagree; None where there is only one."""
    if not run.scored_otherwise or run.primary is None:
        return None
    readings = _readings(summary)
    apart = _apart(run)
    blocks: list[Block] = [_scores(readings)]
    if apart.height:
        blocks.append(_disagreements(run, apart))
    of_all = percent(apart.height / run.facts.height if run.facts.height else None)
    lead = (
        f"{plural(len(readings), 'extractor')} read the same answers; {readings[0][0]} is the one that counts. "
        f"By {run.primary.label}, they disagree on {plural(apart.height, 'answer')} ({of_all})."
    )
    return Section(name="extraction", title="How answers are read", lead=lead, blocks=tuple(blocks))


def spread(summary: RunSummary) -> tuple[float, float] | None:
    """Return the lowest and the highest value of the primary metric over the extractors, where there are several.

    None too where only one of them has the primary metric: a judge reads answers itself, by no other extractor.
    """
    scores = (score for scores in (summary.metrics, *summary.otherwise.values()) for score in scores)
    known = [
        score.value
        for score in scores
        if summary.primary is not None and score.key == summary.primary.key and score.value is not None
    ]
    return (min(known), max(known)) if len(known) > 1 else None


def _readings(summary: RunSummary) -> list[tuple[str, list[Quality]]]:
    """Extractor → every metric over all answers; the one that counts comes first."""
    scores = {summary.spec.extractors[0].label: summary.metrics, **summary.otherwise}
    return [(label, qualities(summary, found)) for label, found in scores.items()]


def _scores(readings: Sequence[tuple[str, Sequence[Quality]]]) -> Table:
    metrics = [quality.label for quality in readings[0][1]]
    rows: list[tuple[Cell, ...]] = []
    for label, scores in readings:
        found = {quality.label: quality for quality in scores}
        invalid = min(
            (quality.score.n_invalid for quality in scores), default=0
        )  # a metric may read less than its text
        rows.append((label, invalid, *(found[metric].estimate if metric in found else None for metric in metrics)))
    return Table(
        name="extractors",
        title="Scores by extractor",
        columns=(
            Column(title="extractor", kind="code"),
            Column(title="cannot be read", kind="number"),
            *(Column(title=metric, kind="estimate") for metric in metrics),
        ),
        rows=tuple(rows),
        note="The same answers, read in several ways: what differs between these rows is not the model.",
    )


def _apart(run: RunEvidence) -> polars.DataFrame:
    """Return the answers to which extractors give different values, one column `value.<extractor>` each."""
    assert run.primary is not None, "asked only where something was scored"  # noqa: S101
    frame = run.facts
    names = []
    for label, metrics in ((run.spec.extractors[0].label, run.scored), *run.scored_otherwise.items()):
        same = [scored for scored in metrics if scored.key == run.primary.key]
        if same:
            names.append(f"value.{label}")
            values = same[0].measures.filter(polars.col("field").is_null())
            frame = frame.join(
                values.select(*ROW, polars.col("value").alias(names[-1])),
                on=list(ROW),
                how="left",
                maintain_order="left",
            )
    first, *others = (polars.col(name) for name in names)
    return frame.filter(polars.any_horizontal(first.ne_missing(other) for other in others)) if others else frame.clear()


def _disagreements(run: RunEvidence, apart: polars.DataFrame) -> Table:
    shown = apart.head(MAX_ROWS)
    texts = [text or "" for text in shown["text"].to_list()]
    columns, readings = [], []
    for extractor in run.spec.extractors:
        if f"value.{extractor.label}" in shown.columns:
            read = extract(texts, extractor=extractor)
            columns.append(extractor.label)
            readings.append(
                [
                    f"{_value(run, value)}: {_cut(text) if text is not None else reason}"
                    for text, reason, value in zip(
                        read.texts, read.reasons, shown[f"value.{extractor.label}"].to_list(), strict=True
                    )
                ]
            )
    references = [json.dumps(list(found or ()), ensure_ascii=False) for found in shown["references"].to_list()]
    return Table(
        name="extractors-disagree",
        title="Answers on which they disagree",
        columns=(Column(title="sample"), Column(title="references"), *(Column(title=label) for label in columns)),
        rows=tuple(
            (key, _cut(reference), *read)
            for key, reference, *read in zip(shown["key"].to_list(), references, *readings, strict=True)
        ),
        note=f"{plural(shown.height, 'answer')} of {plural(apart.height, 'answer')}: its value, then what was read.",
    )


def _value(run: RunEvidence, value: float | None) -> str:
    assert run.primary is not None, "asked only where something was scored"  # noqa: S101
    return "unscored" if value is None else write_number(value, digits_of(run.primary.description))


def _cut(text: str) -> str:
    return text if len(text) <= _CHARS else f"{text[: _CHARS - 1]}…"
