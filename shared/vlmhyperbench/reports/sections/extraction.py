"""How much the scores depend on the extractor, for a run with several extractors."""

from __future__ import annotations

import json
from collections.abc import Sequence

import polars

from vlmhyperbench.reports.document import Block, Cell, Column, Section, Table, write_number
from vlmhyperbench.reports.sections.quality import Quality, digits_of, qualities
from vlmhyperbench.reports.sections.wording import cut_cell, percent, plural
from vlmhyperbench.scoring.extraction import extract
from vlmhyperbench.summaries.answers import ROW
from vlmhyperbench.summaries.evidence import RunEvidence, ScoredMetric
from vlmhyperbench.summaries.summary import RunSummary

MAX_ROWS = 24


def extraction(summary: RunSummary, run: RunEvidence) -> Section | None:
    """Return the scores of each extractor and the answers on which they disagree; None if there is a single one."""
    primary = run.primary
    if not run.scored_otherwise or primary is None:
        return None
    readings = _readings(summary)
    differing = _disagreements(run, primary)
    blocks: list[Block] = [_scores(readings)]
    if differing.height:
        blocks.append(_disagreement_table(run, primary, differing))
    of_all = percent(differing.height / run.facts.height if run.facts.height else None)
    lead = (
        f"{plural(len(readings), 'extractor')} read the same answers; the scores of the report are by "
        f"{readings[0][0]}. By {primary.label}, they disagree on {plural(differing.height, 'answer')} ({of_all})."
    )
    return Section(name="extraction", title="How answers are read", lead=lead, blocks=tuple(blocks))


def spread(summary: RunSummary) -> tuple[float, float] | None:
    """Return the lowest and the highest value of the primary metric over the extractors.

    None if only one extractor has the primary metric; a judge, for instance, reads whole answers.
    """
    scores = (score for scores in (summary.metrics, *summary.otherwise.values()) for score in scores)
    known = [
        score.value
        for score in scores
        if summary.primary is not None and score.key == summary.primary.key and score.value is not None
    ]
    return (min(known), max(known)) if len(known) > 1 else None


def _readings(summary: RunSummary) -> list[tuple[str, list[Quality]]]:
    """Return every metric over all answers for each extractor, the primary extractor first."""
    by_extractor = {summary.spec.extractors[0].label: summary.metrics, **summary.otherwise}
    return [(label, qualities(summary, scores)) for label, scores in by_extractor.items()]


def _scores(readings: Sequence[tuple[str, Sequence[Quality]]]) -> Table:
    metrics = [quality.label for quality in readings[0][1]]
    rows: list[tuple[Cell, ...]] = []
    for label, scores in readings:
        by_metric = {quality.label: quality.estimate for quality in scores}
        # A metric may find further answers invalid; the fewest are those that the extractor could not read.
        unread = min((quality.score.n_invalid for quality in scores), default=0)
        rows.append((label, unread, *(by_metric.get(metric) for metric in metrics)))
    return Table(
        name="extractors",
        title="Scores by extractor",
        columns=(
            Column(title="extractor", kind="code"),
            Column(title="unreadable", kind="number"),
            *(Column(title=metric, kind="estimate") for metric in metrics),
        ),
        rows=tuple(rows),
        note="The answers are the same; only the way in which they are read differs between the rows.",
    )


def _disagreements(run: RunEvidence, primary: ScoredMetric) -> polars.DataFrame:
    """Return the answers to which extractors give different values, with a column `value.<extractor>` for each."""
    frame = run.facts
    names = []
    for label, metrics in ((run.spec.extractors[0].label, run.scored), *run.scored_otherwise.items()):
        same = [scored for scored in metrics if scored.key == primary.key]
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


def _disagreement_table(run: RunEvidence, primary: ScoredMetric, differing: polars.DataFrame) -> Table:
    shown = differing.head(MAX_ROWS)
    texts = [text or "" for text in shown["text"].to_list()]
    columns, readings = [], []
    for extractor in run.spec.extractors:
        if f"value.{extractor.label}" in shown.columns:
            read = extract(texts, extractor=extractor)
            columns.append(extractor.label)
            readings.append(
                [
                    f"{_value(primary, value)}: {cut_cell(text) if text is not None else reason}"
                    for text, reason, value in zip(
                        read.texts, read.reasons, shown[f"value.{extractor.label}"].to_list(), strict=True
                    )
                ]
            )
    references = [json.dumps(list(texts or ()), ensure_ascii=False) for texts in shown["references"].to_list()]
    return Table(
        name="extractors-disagree",
        title="Answers on which they disagree",
        columns=(Column(title="sample"), Column(title="references"), *(Column(title=label) for label in columns)),
        rows=tuple(
            (key, cut_cell(reference), *read)
            for key, reference, *read in zip(shown["key"].to_list(), references, *readings, strict=True)
        ),
        note=f"{shown.height} of {plural(differing.height, 'answer')}; each cell has the value and the text that was "
        "read.",
    )


def _value(primary: ScoredMetric, value: float | None) -> str:
    return "unscored" if value is None else write_number(value, digits_of(primary.description))
