"""Score the answers of a run by one metric: every row gets an outcome, and a value or a reason why it has none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from vlmhyperbench.domain.specs import ExtractorSpec
from vlmhyperbench.scoring.extraction import TEXT, extract
from vlmhyperbench.scoring.measuring import measure_all
from vlmhyperbench_sdk.protocols import INVALID_ANSWER, INVALID_STATISTIC, Metric
from vlmhyperbench_sdk.types import JsonObject, Measure

Policy = Literal["zero", "exclude"]
"""`zero`: it counts as a wrong answer; `exclude`: it has no value."""

INVALID = "invalid_output"

_NOWHERE_RIGHT = "\N{REPLACEMENT CHARACTER}"


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
    wrong: Measure | None = None
    """What the row would add to pooled statistics if its answer were wrong; only where it has no value."""
    right: Measure | None = None
    """The same if its answer were its first reference."""


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
    worst = failing or metric
    said = iter(_asked(metric, cases, rows, wrong=False))
    failed = iter(_asked(worst, cases, rows, wrong=True))
    measures = [
        Measure.unscored(case.reason) if case.prediction is None else next(failed if case.is_wrong else said)
        for case in cases
    ]
    bounds = _bounds(metric, worst, rows, measures)
    return [
        Score(
            outcome=_final(case.outcome, measure),
            measure=measure,
            is_invalid=case.is_invalid or (not case.is_wrong and _could_not_read(measure)),
            wrong=wrong,
            right=right,
        )
        for case, measure, (wrong, right) in zip(cases, measures, bounds, strict=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """What a metric is asked of a row: a prediction, or nothing and why."""

    outcome: Outcome
    prediction: str | None = None
    reason: str = ""
    is_invalid: bool = False

    @property
    def is_wrong(self) -> bool:
        """Whether the prediction stands for a failure that counts as wrong."""
        return self.outcome is Outcome.MODEL_FAILURE


def _asked(metric: Metric, cases: Sequence[_Case], rows: Sequence[Row], *, wrong: bool) -> list[Measure]:
    asked = [
        (case.prediction, row)
        for case, row in zip(cases, rows, strict=True)
        if case.prediction is not None and case.is_wrong is wrong
    ]
    return _measure(metric, [prediction for prediction, _ in asked], [row for _, row in asked])


def _measure(metric: Metric, predictions: Sequence[str], rows: Sequence[Row]) -> list[Measure]:
    return measure_all(metric, predictions, [row.references for row in rows], [row.metadata for row in rows])


def _case(row: Row, text: str | None, reason: str | None, *, on_model_failure: Policy, on_invalid: Policy) -> _Case:
    outcome = outcome_of(row)
    wrong = wrong_answer(row.references)
    if outcome is Outcome.SCORED:
        if text is not None:
            return _Case(outcome=outcome, prediction=text)
        if on_invalid == "zero":
            return _Case(outcome=Outcome.MODEL_FAILURE, prediction=wrong, is_invalid=True)
        return _Case(outcome=outcome, reason=f"{INVALID}: {reason}", is_invalid=True)
    if outcome is Outcome.MODEL_FAILURE and on_model_failure == "zero":
        return _Case(outcome=outcome, prediction=wrong)
    return _Case(outcome=outcome, reason=row.error_code or row.status)


def wrong_answer(references: Sequence[str]) -> str:
    """Return the answer that a failure counts as: empty, or what no reference is where one of them is empty."""
    return "" if all(reference.strip() for reference in references) else _NOWHERE_RIGHT


def _could_not_read(measure: Measure) -> bool:
    return (measure.reason or "").startswith(INVALID_ANSWER) or measure.statistics.get(INVALID_STATISTIC, 0.0) > 0


def _final(outcome: Outcome, measure: Measure) -> Outcome:
    return Outcome.UNSCORED if outcome is Outcome.SCORED and measure.value is None else outcome


def _bounds(
    metric: Metric, worst: Metric, rows: Sequence[Row], measures: Sequence[Measure]
) -> Iterable[tuple[Measure | None, Measure | None]]:
    """Only pooled metrics need them: the bounds of a mean follow from the metric's range."""
    is_open = [
        measure.value is None and bool(row.references) and metric.description.aggregation == "pooled"
        for row, measure in zip(rows, measures, strict=True)
    ]
    missing = [row for row, without in zip(rows, is_open, strict=True) if without]
    wrong = iter(_measure(worst, [wrong_answer(row.references) for row in missing], missing))
    right = iter(_measure(metric, [row.references[0] for row in missing], missing))
    return [(next(wrong), next(right)) if without else (None, None) for without in is_open]
