"""Score the answers of a run by one metric: every row gets an outcome, and a value or a reason for a missing one."""

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

_MATCHES_NOTHING = "\N{REPLACEMENT CHARACTER}"
"""It is neither punctuation nor a word nor white space, so no normaliser removes it."""


class Outcome(StrEnum):
    """The outcome of a row, which attributes a missing score."""

    SCORED = "scored"
    MODEL_FAILURE = "model_failure"
    """Refusal, too long context, time-out, unreadable answer: counts against the model, by policy."""
    INFRASTRUCTURE_FAILURE = "infrastructure_failure"
    """Crash, quarantine, network, unreadable image: never counts against the model."""
    UNSCORED = "unscored"
    """There is an answer, but the metric cannot score it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The values of a fact and its sample that scoring needs."""

    status: str
    """`ok`, `error` or `quarantined`."""
    text: str | None = None
    references: Sequence[str] = ()
    metadata: JsonObject = field(default_factory=dict)
    failure: str | None = None
    """Cause of an error: `model` or `infrastructure`; None counts as `infrastructure`."""
    error_code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The measure of one row with its outcome."""

    outcome: Outcome
    measure: Measure
    is_invalid: bool = False
    """There is an answer, but the extractor or the metric could not parse it."""
    right: Measure | None = None
    """Contribution of the row to pooled statistics if its answer were right; only for a row without a value."""


def outcome_of(row: Row) -> Outcome:
    """Return the outcome of a row before any metric is computed."""
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

    `failing` scores rows that count as a wrong answer: the same metric, which gives unreadable answers its worst value.
    Answers that `metric` itself cannot parse count by its params.

    A model failure, or an answer that the extractor cannot parse, is scored as a wrong answer under the policy `zero`
    and is unscored under `exclude`; an infrastructure failure is never scored. If the metric raises on a row, only that
    row is unscored.

    Raises:
        NotFound: there is no such extractor.
        InvalidInput: it refuses its params.
    """
    extracted = extract([row.text or "" for row in rows], extractor=extractor)
    cases = [
        _case(row, text, reason, on_model_failure=on_model_failure, on_invalid=on_invalid)
        for row, text, reason in zip(rows, extracted.texts, extracted.reasons, strict=True)
    ]
    read = iter(_measure_answered(metric, cases, rows))
    failed = iter(_measure_wrong(failing or metric, [*compress(rows, [case.is_wrong for case in cases])]))
    measures = [
        next(failed) if case.is_wrong else next(read) if case.prediction is not None else Measure.unscored(case.reason)
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
    """The input of a metric for a row: a prediction, a wrong answer, or none with a reason."""

    outcome: Outcome
    prediction: str | None = None
    reason: str = ""
    is_invalid: bool = False
    is_wrong: bool = False
    """Whether it is a failure that counts as a wrong answer."""


def _measure_answered(metric: Metric, cases: Sequence[_Case], rows: Sequence[Row]) -> list[Measure]:
    answered = [(case.prediction, row) for case, row in zip(cases, rows, strict=True) if case.prediction is not None]
    return _measure(metric, [prediction for prediction, _ in answered], [row for _, row in answered])


def _measure(metric: Metric, predictions: Sequence[str], rows: Sequence[Row]) -> list[Measure]:
    return measure_all(metric, predictions, [row.references for row in rows], [row.metadata for row in rows])


def _measure_wrong(metric: Metric, rows: Sequence[Row]) -> list[Measure]:
    """Score rows as if their answers were wrong.

    A normaliser may remove a whole reference (an article, a dash), and then the empty answer matches it. So an answer
    that matches nothing is scored too, and its measure is used if it is worse. Otherwise that of the empty answer is
    used, because it adds no length to corpus scores.
    """
    empty = _measure(metric, [wrong_answer(row.references) for row in rows], rows)
    matching_nothing = _measure(metric, [_MATCHES_NOTHING] * len(rows), rows)
    direction = metric.description.direction
    return [
        second if _is_worse(second, first, direction) else first
        for first, second in zip(empty, matching_nothing, strict=True)
    ]


def _is_worse(first: Measure, second: Measure, direction: Literal["higher", "lower"] | None) -> bool:
    if first.value is None or second.value is None or direction is None:
        return False
    return first.value < second.value if direction == "higher" else first.value > second.value


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
    """Return the answer that a failure counts as: the empty one, unless a reference is empty."""
    return "" if all(reference.strip() for reference in references) else _MATCHES_NOTHING


def _could_not_read(measure: Measure) -> bool:
    return (measure.reason or "").startswith(INVALID_ANSWER) or measure.statistics.get(INVALID_STATISTIC, 0.0) > 0


def _final(outcome: Outcome, measure: Measure) -> Outcome:
    return Outcome.UNSCORED if outcome is Outcome.SCORED and measure.value is None else outcome


def _right(metric: Metric, rows: Sequence[Row], measures: Sequence[Measure]) -> list[Measure | None]:
    """Score rows without a value as if their answers were right, if they have a single right answer.

    Of several right answers any could be the best one. Only pooled metrics need these measures, because the bounds of a
    mean follow from the metric's range.
    """
    is_pooled = metric.description.aggregation == "pooled"
    is_open = [
        is_pooled and measure.value is None and len(set(row.references)) == 1
        for row, measure in zip(rows, measures, strict=True)
    ]
    missing = [*compress(rows, is_open)]
    right = iter(_measure(metric, [row.references[0] for row in missing], missing))
    return [next(right) if without else None for without in is_open]
