"""Figures of what a metric counts in its statistics: confused labels, and fields by how often they are right.

A metric takes part by the names of its additive statistics: `cell:<expected>|<predicted>` counts answers by label
(`%` and two hexadecimal digits stand for a byte); `right:<path>` and `expected:<path>` count the values of a field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from urllib.parse import unquote

import polars

from vlmhyperbench.analysis.confusion import UNPARSED, confusion_of
from vlmhyperbench.analysis.figures import FigureSpec, matrix_figure
from vlmhyperbench.analysis.labels import slug
from vlmhyperbench.reports.sections.wording import group_title, plural
from vlmhyperbench.summaries.answers import answers_of
from vlmhyperbench.summaries.evidence import GROUP, RunEvidence, ScoredMetric

MAX_FIELDS = 24
MAX_GROUPS = 13
_STATISTIC = "stat."
_CELL, _RIGHT, _EXPECTED = (f"{_STATISTIC}{name}:" for name in ("cell", "right", "expected"))
_ALL = "all"


def statistics_figures(run: RunEvidence) -> list[FigureSpec]:
    """Draw the labels and fields that metrics count; equal counts of several metrics or profiles are drawn once."""
    figures: dict[tuple[object, ...], FigureSpec] = {}
    for scored in run.scored:
        for draw in (confusion_matrix, field_matrix):
            figure = draw(run, scored)
            if figure is not None:
                figures.setdefault((figure.categories, figure.columns, figure.cell_labels), figure)
    return list(figures.values())


def confusion_matrix(run: RunEvidence, scored: ScoredMetric) -> FigureSpec | None:
    """Draw the confusion matrix of labels; None if the metric counts no labels."""
    sums = _sums(answers_of(run, scored), _CELL)
    counts: Counter[tuple[str, str]] = Counter()
    for name, count in sums.items():
        expected, _, predicted = name.partition("|")
        counts[_label(expected), _label(predicted)] += round(count)
    if not +counts:
        return None
    confusion = confusion_of(+counts)
    totals = {label: confusion.total(label) for label in confusion.labels}
    unparsed = " '__unparsed__' stands for all texts that are no label." if UNPARSED in confusion.predicted else ""
    pooled = f" 'other' pools the {plural(confusion.pooled, 'rarest label')}." if confusion.pooled else ""
    return matrix_figure(
        f"confusion-{slug(scored.key)}",
        f"{scored.label}: expected and predicted labels",
        rows=("expected label", confusion.labels),
        columns=("predicted label", confusion.predicted),
        cells={pair: (count / totals[pair[0]], str(count)) for pair, count in confusion.counts.items()},
        note="Number of answers; the darker, the larger the share of the expected label. Empty cells are 0."
        f"{pooled}{unparsed}",
    )


def field_matrix(run: RunEvidence, scored: ScoredMetric) -> FigureSpec | None:
    """Draw the share of right values by field and group, the weakest fields at the top; None without fields."""
    answers = answers_of(run, scored)
    column = next((name for name in run.groups if answers[GROUP + name].n_unique() <= MAX_GROUPS), None)
    parts: dict[str, polars.DataFrame] = {_ALL: answers}
    if column is not None:
        known = answers.filter(polars.col(GROUP + column).is_not_null())
        parts |= {str(key): part for (key,), part in sorted(known.group_by(GROUP + column), key=lambda group: group[0])}
    shares = {group: _shares(part) for group, part in parts.items()}
    weakest = sorted(shares[_ALL], key=lambda field: (shares[_ALL][field][0], field))
    if not weakest:
        return None
    title = group_title(column) if column else "run"
    left_out = len(weakest) - MAX_FIELDS
    more = f" {plural(left_out, 'stronger field is', 'stronger fields are')} not drawn." if left_out > 0 else ""
    return matrix_figure(
        f"fields-{slug(scored.key)}",
        f"{scored.label}: fields by {title}",
        rows=("field", weakest[:MAX_FIELDS]),
        columns=(title, list(parts)),
        cells={
            (field, group): (1 - share, f"{share:.2f} · {expected}")
            for group, fields in shares.items()
            for field, (share, expected) in fields.items()
        },
        note=f"Share of expected values that are right · number of expected values; the darker, the weaker.{more}",
    )


def _shares(answers: polars.DataFrame) -> dict[str, tuple[float, int]]:
    """Return field → (share of right values, number of expected values)."""
    right, expected = _sums(answers, _RIGHT), _sums(answers, _EXPECTED)
    return {field: (right.get(field, 0.0) / count, round(count)) for field, count in expected.items() if count > 0}


def _sums(answers: polars.DataFrame, prefix: str) -> Mapping[str, float]:
    columns = sorted(name for name in answers.columns if name.startswith(prefix))
    return {name.removeprefix(prefix): float(answers[name].sum() or 0.0) for name in columns}


def _label(escaped: str) -> str:
    """Undo the escapes, except in a label whose name is that of the unparsed texts."""
    label = unquote(escaped)
    return escaped if label == UNPARSED else label
