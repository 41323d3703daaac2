"""Score the answers of a run by one metric: every row gets an outcome, and a value or a reason why it has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import compress
from typing import Literal

from vlmhyperbench.domain.specs import ExtractorSpec
from vlmhyperbench.scoring.extraction import TEXT, extract
from vlmhyperbench.scoring.measuring import measure_all
from vlmhyperbench.scoring.metrics import Policy
from vlmhyperbench_sdk.protocols import INVALID_ANSWER, INVALID_STATISTIC, Metric
from vlmhyperbench_sdk.types import JsonObject, Measure

INVALID = "invalid_output"

_NOWHERE_RIGHT = "\N{REPLACEMENT CHARACTER}"
"""No punctuation, no word and no white space, so that no normaliser empties it."""


class Outcome(StrEnum):
    """What became of a row: who is to blame where there is no ordinary score."""

    SCORED = "scored"
    MODEL_FAILURE = "model_failure"
    """Refusal, over-long context, time-out, an answer that cannot be read: counts against the model, by policy."""
    INFRASTRUCTURE_FAILURE = "infrastructure_failure"
    """Crash, quarantine, network, unreadable image: never counts against the model."""
    UNSCORED = "unscored"
    """There is an answer, but the metric cannot give a number for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What scoring has to know of one fact and its sample."""

    status: str
    """`ok`, `error` or `quarantined`."""
    text: str | None = None
    references: Sequence[str] = ()
    metadata: JsonObject = field(default_factory=dict)
    failure: str | None = None
    """Of an error: `model` or `infrastructure`; None counts as `infrastructure`."""
    error_code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The measure of one row with its outcome."""

    outcome: Outcome
    measure: Measure
    is_invalid: bool = False
    """There is an answer, but nothing could be read out of it, by the extractor or by the metric."""
    right: Measure | None = None
    """What the row would add to pooled statistics if its answer were right; only where it has no value."""


def outcome_of(row: Row) -> Outcome:
    """Say who is to blame, before any metric is asked."""
    if row.status == "ok":
        return Outcome.SCORED
    is_model = row.status == "error" and row.failure == "model"
    return Outcome.MODEL_FAILURE if is_model else Outcome.INFRASTRUCTURE_FAILURE


def score(
    metric: Metric,
    rows: Sequence[Row],
    *,
    failing: Metric | None = None,
    extractor: ExtractorSpec = TEXT,
    on_model_failure: Policy = "zero",
    on_invalid: Policy = "exclude",
) -> list[Score]:
    """Score rows in one batch.

    `failing` scores what counts as a wrong answer: the same metric, told to give what it cannot read its worst value.
    What `metric` itself cannot read is worth what its params say.

    A model failure, or an answer that the extractor cannot read, is scored as a wrong answer under the policy `zero`,
    and under `exclude` not at all; an infrastructure failure is never scored. A metric that raises on a row leaves that
    row unscored, and no other.

    Raises:
        NotFound: there is no such extractor.
        InvalidInput: it refuses its params.
    """
    extracted = extract([row.text or "" for row in rows], extractor=extractor)
    cases = [
        _case(row, text, reason, on_model_failure=on_model_failure, on_invalid=on_invalid)
        for row, text, reason in zip(rows, extracted.texts, extracted.reasons, strict=True)
    ]
    said = iter(_measure_said(metric, cases, rows))
    failed = iter(_measure_wrong(failing or metric, [*compress(rows, [case.is_wrong for case in cases])]))
    measures = [
        next(failed) if case.is_wrong else next(said) if case.prediction is not None else Measure.unscored(case.reason)
        for case in cases
    ]
    return [
        Score(
            outcome=_final(case.outcome, measure),
            measure=measure,
            is_invalid=case.is_invalid or (case.prediction is not None and _could_not_read(measure)),
            right=right,
        )
        for case, measure, right in zip(cases, measures, _right(metric, rows, measures), strict=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """What a metric is asked of a row: a prediction, a wrong answer, or nothing and why."""

    outcome: Outcome
    prediction: str | None = None
    reason: str = ""
    is_invalid: bool = False
    is_wrong: bool = False
    """It is a failure that counts as a wrong answer."""


def _measure_said(metric: Metric, cases: Sequence[_Case], rows: Sequence[Row]) -> list[Measure]:
    said = [(case.prediction, row) for case, row in zip(cases, rows, strict=True) if case.prediction is not None]
    return _measure(metric, [prediction for prediction, _ in said], [row for _, row in said])


def _measure(metric: Metric, predictions: Sequence[str], rows: Sequence[Row]) -> list[Measure]:
    return measure_all(metric, predictions, [row.references for row in rows], [row.metadata for row in rows])


def _measure_wrong(metric: Metric, rows: Sequence[Row]) -> list[Measure]:
    """Score rows as if their answers were wrong.

    A normaliser may leave nothing of a reference (of an article, of a dash), and then the empty answer agrees with it.
    So an answer that agrees with nothing is scored as well, and counts where it is worth less. Elsewhere the empty one
    does: to corpus scores it adds no length.
    """
    empty = _measure(metric, [wrong_answer(row.references) for row in rows], rows)
    nowhere_right = _measure(metric, [_NOWHERE_RIGHT] * len(rows), rows)
    direction = metric.description.direction
    return [
        second if _is_worse(second, first, direction) else first
        for first, second in zip(empty, nowhere_right, strict=True)
    ]


def _is_worse(one: Measure, other: Measure, direction: Literal["higher", "lower"] | None) -> bool:
    if one.value is None or other.value is None or direction is None:
        return False
    return one.value < other.value if direction == "higher" else one.value > other.value


def _case(row: Row, text: str | None, reason: str | None, *, on_model_failure: Policy, on_invalid: Policy) -> _Case:
    outcome = outcome_of(row)
    if outcome is Outcome.SCORED:
        if text is not None:
            return _Case(outcome=outcome, prediction=text)
        if on_invalid == "zero":
            return _Case(outcome=Outcome.MODEL_FAILURE, is_invalid=True, is_wrong=True)
        return _Case(outcome=outcome, reason=f"{INVALID}: {reason}", is_invalid=True)
    if outcome is Outcome.MODEL_FAILURE and on_model_failure == "zero":
        return _Case(outcome=outcome, is_wrong=True)
    return _Case(outcome=outcome, reason=row.error_code or row.status)


def wrong_answer(references: Sequence[str]) -> str:
    """Return the answer that a failure counts as: empty, or what no reference is where one of them is empty."""
    return "" if all(reference.strip() for reference in references) else _NOWHERE_RIGHT


def _could_not_read(measure: Measure) -> bool:
    return (measure.reason or "").startswith(INVALID_ANSWER) or measure.statistics.get(INVALID_STATISTIC, 0.0) > 0


def _final(outcome: Outcome, measure: Measure) -> Outcome:
    return Outcome.UNSCORED if outcome is Outcome.SCORED and measure.value is None else outcome


def _right(metric: Metric, rows: Sequence[Row], measures: Sequence[Measure]) -> list[Measure | None]:
    """Score what has no value as if it were right, where there is one right answer: of several any could be the best.

    Only pooled metrics need it: the bounds of a mean follow from the metric's range.
    """
    is_pooled = metric.description.aggregation == "pooled"
    is_open = [
        is_pooled and measure.value is None and len(set(row.references)) == 1
        for row, measure in zip(rows, measures, strict=True)
    ]
    missing = [*compress(rows, is_open)]
    right = iter(_measure(metric, [row.references[0] for row in missing], missing))
    return [next(right) if without else None for without in is_open]
