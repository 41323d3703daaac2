"""What each member is worth to a vote: the vote is counted again without it, and no model is asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vlmhyperbench.analysis import stats
from vlmhyperbench.analysis.ensembles import Answers, Ensemble, oriented
from vlmhyperbench.analysis.results import Interval
from vlmhyperbench.analysis.stats import FloatArray
from vlmhyperbench_sdk.aggregation import NO_CONTEXT, AggregationContext, MemberAnswer
from vlmhyperbench_sdk.protocols import Aggregation


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberValue:
    """The result with all members against the result without one; above 0, the member helps."""

    name: str
    samples: int
    """Number of samples with a score of both results."""
    unknown: int
    """Number of other samples, mostly those where the vote without the member gives an answer that has no score."""
    changed: int
    """Number of samples whose answer is another one without the member."""
    value: float | None
    """Value with the member minus value without it, oriented; None without a sample."""
    interval: Interval | None


def member_values(
    ensemble: Ensemble,
    aggregation: Aggregation,
    context: AggregationContext = NO_CONTEXT,
    *,
    seed: int = 0,
) -> tuple[MemberValue, ...]:
    """Return what each member adds; empty for a single member.

    An answer without the member is scored by the equal answer of a member or of the result. A vote of fields may give
    an answer that nobody gave; such samples are unknown.

    Args:
        ensemble: The answers, with texts.
        aggregation: How answers become one; it must not ask a model.
        context: What is known beside the answers, such as the schema.
        seed: Seed of the bootstrap.
    """
    if len(ensemble.members) < 2:
        return ()
    return tuple(_value_of(ensemble, member, aggregation, context, seed) for member in ensemble.members)


def _value_of(
    ensemble: Ensemble, left_out: Answers, aggregation: Aggregation, context: AggregationContext, seed: int
) -> MemberValue:
    others = [member for member in ensemble.members if member is not left_out]
    result = ensemble.result
    samples, rows, changed = [], [], 0
    for sample in range(len(ensemble.clusters)):
        answers = [_answer(member, sample) for member in others]
        text = aggregation.aggregate(answers, context).value
        changed += text != result.texts[sample]
        source = next((given for given in (result, *others) if text is not None and given.texts[sample] == text), None)
        if source is not None and np.isfinite([source.values[sample], result.values[sample]]).all():
            samples.append(sample)
            rows.append(source.statistics[sample])
    value, interval = _gain(ensemble, np.array(samples, dtype=np.int64), rows, seed)
    return MemberValue(
        name=left_out.name,
        samples=len(samples),
        unknown=len(ensemble.clusters) - len(samples),
        changed=changed,
        value=value,
        interval=interval,
    )


def _gain(
    ensemble: Ensemble, samples: stats.IntArray, rows: list[FloatArray], seed: int
) -> tuple[float | None, Interval | None]:
    if not rows:
        return None, None
    documents = np.asarray(ensemble.clusters)[samples]
    without = stats.by_unit(np.stack(rows), documents)
    whole = stats.by_unit(ensemble.result.statistics[samples], documents)
    compared = stats.compare_paired(without, whole, ensemble.estimator, seed=seed)
    if compared is None:
        return None, None
    return ensemble.sign * compared.difference, oriented(compared.interval, ensemble.sign)


def _answer(member: Answers, sample: int) -> MemberAnswer:
    text = member.texts[sample]
    error = "no answer" if text is None else None
    return MemberAnswer(name=member.name, text=text, error=error, weight=member.weight)
