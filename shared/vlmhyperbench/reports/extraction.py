"""How much the scores depend on how answers are read, where a run reads them in several ways."""

from __future__ import annotations

import json
from collections.abc import Sequence

import polars

from vlmhyperbench.reports.answers import ROW
from vlmhyperbench.reports.document import Block, Cell, Column, Section, Table, write_number
from vlmhyperbench.reports.evidence import RunEvidence, ScoredMetric
from vlmhyperbench.reports.quality import Quality, digits_of, qualities_of
from vlmhyperbench.reports.wording import percent, plural
from vlmhyperbench.scoring.extraction import extract

MAX_ROWS = 24
_CHARS = 120


def extraction(run: RunEvidence) -> tuple[Section, ...]:
    """Lay the extractors' scores beside each other, and list the answers on which they disagree; or nothing."""
    if not run.scored_otherwise or run.primary is None:
        return ()
    readings = _readings(run)
    apart = _apart(run)
    blocks: list[Block] = [_scores(readings)]
    if apart.height:
        blocks.append(_disagreements(run, apart))
    of_all = percent(apart.height / run.facts.height if run.facts.height else None)
    lead = (
        f"{plural(len(readings), 'extractor')} read the same answers; {readings[0][0]} is the one that counts. "
        f"By {run.primary.label}, they disagree on {plural(apart.height, 'answer')} ({of_all})."
    )
    return (Section(name="extraction", title="How answers are read", lead=lead, blocks=tuple(blocks)),)


def spread(run: RunEvidence) -> tuple[float, float] | None:
    """Return the lowest and the highest value of the primary metric over the extractors, where there are several."""
    values = [qualities[0].value for _, qualities in _readings(run) if qualities]
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if len(known) > 1 else None


def _readings(run: RunEvidence) -> list[tuple[str, list[Quality]]]:
    """Extractor → every metric over all answers; the one that counts comes first."""
    scored: list[tuple[str, Sequence[ScoredMetric]]] = [
        (run.spec.extractors[0].label, run.scored),
        *run.scored_otherwise.items(),
    ]
    return [(label, [one for scored in metrics for one in qualities_of(run, scored)]) for label, metrics in scored]


def _scores(readings: Sequence[tuple[str, Sequence[Quality]]]) -> Table:
    metrics = [one.label for one in readings[0][1]]
    rows: list[tuple[Cell, ...]] = []
    for label, qualities in readings:
        found = {one.label: one for one in qualities}
        invalid = min((one.summary.n_invalid for one in qualities), default=0)  # a metric may read less than its text
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
        same = [one for one in metrics if one.key == run.primary.key]
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
    return "unscored" if value is None else write_number(value, digits_of(run.primary))


def _cut(text: str) -> str:
    return text if len(text) <= _CHARS else f"{text[: _CHARS - 1]}…"
