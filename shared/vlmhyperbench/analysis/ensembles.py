"""What an ensemble adds to its members: uplift over the best one, and what the best choice among them would reach.

All targets are measured by one metric on the same samples. Samples for which the result or a member has no value are
left out for all of them. Differences are oriented: above 0, the ensemble is better, whatever the metric's direction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from vlmhyperbench.analysis import stats
from vlmhyperbench.analysis.results import CONFIDENCE, Interval
from vlmhyperbench.analysis.stats import RESAMPLES, Estimator, FloatArray, IntArray

_BATCH_NUMBERS = 2_000_000
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answers:
    """The answers of one target, the result or a member, in the order of the samples."""

    name: str
    values: FloatArray
    """Value of the metric; NaN where there is none. Shape: (samples,)."""
    statistics: FloatArray
    """Additive statistics of the metric; for a mean (value, 1). Shape: (samples, statistics)."""
    texts: Sequence[str | None]
    """Text of each answer; None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ensemble:
    """Paired answers of a pipeline's result and of its members."""

    result: Answers
    members: tuple[Answers, ...]
    clusters: Sequence[str]
    """Document of each sample; documents are the units of intervals."""
    estimator: Estimator = stats.mean_of
    direction: Literal["higher", "lower"] = "higher"

    @property
    def sign(self) -> int:
        """1 where higher values are better, else -1."""
        return 1 if self.direction == "higher" else -1

    @property
    def scored(self) -> IntArray:
        """Indices of the samples for which result and members all have a value."""
        values = np.stack([self.result.values, *(member.values for member in self.members)])
        return np.flatnonzero(np.isfinite(values).all(axis=0))

    def units(self, answers: Answers) -> FloatArray:
        """Return the sums of each document over the scored samples. Shape: (units, statistics)."""
        scored = self.scored
        return stats.by_unit(answers.statistics[scored], np.asarray(self.clusters)[scored])


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberUplift:
    """A member alone, and how much better the result is."""

    name: str
    value: float
    interval: Interval | None
    """Of `value`."""
    uplift: float
    uplift_interval: Interval | None
    """Paired interval of the uplift over this member."""
    p_value: float | None
    best_share: float
    """Share of the resamples in which this member was the best one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uplift:
    """How much better the result is than its best member.

    The best member is chosen by the same samples on which the uplift is measured. Its value is therefore too good on
    average, and the uplift too small. The interval includes the choice: each resample chooses its best member anew.
    """

    samples: int
    left_out: int
    """Number of samples for which the result or a member has no value."""
    units: int
    value: float
    """Value of the result."""
    interval: Interval | None
    """Of `value`."""
    best: str
    """Member with the best value."""
    uplift: float
    low: float | None
    """Lower end of the interval of the uplift; like `high` None with fewer than two documents, or without variance."""
    high: float | None
    members: tuple[MemberUplift, ...]
    confidence: float = CONFIDENCE
    is_constant: bool = False
    """Whether the uplift is the same in every resample of several documents: then the test alone decides."""

    @property
    def is_shown(self) -> bool:
        """Whether interval and test show that the result is better than its best member."""
        low = self.uplift if self.is_constant else self.low
        return low is not None and low > 0 and self._is_significant

    @property
    def is_refuted(self) -> bool:
        """Whether interval and test show that the result is worse than its best member."""
        high = self.uplift if self.is_constant else self.high
        return high is not None and high < 0 and self._is_significant

    @property
    def _is_significant(self) -> bool:
        """Whether the paired test rejects too: with a handful of documents a bootstrap's interval is too narrow."""
        p_value = next((member.p_value for member in self.members if member.name == self.best), None)
        return p_value is not None and p_value < 1 - self.confidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    """Value of an oracle that always picks the best answer of k members, averaged over all choices of k members."""

    k: int
    value: float
    interval: Interval | None


def uplift(ensemble: Ensemble, *, seed: int = 0) -> Uplift | None:
    """Compare the result with its best member and with each one.

    The interval is the percentile interval of a bootstrap over documents that chooses the best member anew in every
    resample (Efron 2014, "Estimation and Accuracy after Model Selection", section 3). Where members are almost equally
    good, resamples choose too good a member once more, so the interval is conservative: it lies too low.

    Returns:
        None without a sample that all have a value for, or where the value of a target is undefined.
    """
    scored = ensemble.scored
    if not len(scored):
        return None
    own, sign = ensemble.units(ensemble.result), ensemble.sign
    units = [ensemble.units(member) for member in ensemble.members]
    totals = [float(ensemble.estimator(sums.sum(axis=0))) for sums in units]
    value = float(ensemble.estimator(own.sum(axis=0)))
    if not np.isfinite([value, *totals]).all():
        return None
    best = max(range(len(totals)), key=lambda member: sign * totals[member])
    resampled, shares = _reselected(own, units, ensemble.estimator, sign, seed)
    is_constant = len(own) > 1 and float(np.ptp(resampled)) <= _ROUNDING
    low, high = (None, None) if is_constant or len(own) < 2 else _ends(resampled)
    return Uplift(
        samples=len(scored),
        left_out=len(ensemble.clusters) - len(scored),
        units=len(own),
        value=value,
        interval=stats.interval(own, ensemble.estimator, seed=seed),
        best=ensemble.members[best].name,
        uplift=sign * (value - totals[best]),
        low=low,
        high=high,
        is_constant=is_constant,
        members=tuple(
            _over_member(member.name, own, sums, ensemble.estimator, sign, share, seed)
            for member, sums, share in zip(ensemble.members, units, shares, strict=True)
        ),
    )


def oracles(ensemble: Ensemble, *, seed: int = 0) -> tuple[Oracle, ...]:
    """Return the oracle of 1 to all members; empty without a sample that all have a value for.

    The mean over all choices of k members is exact: the i-th worst of m answers is the best of C(i - 1, k - 1) of the
    C(m, k) choices, as in pass@k (Chen et al. 2021, arXiv:2107.03374, eq. 1).
    """
    scored = ensemble.scored
    if not len(scored):
        return ()
    values = ensemble.sign * np.stack([member.values[scored] for member in ensemble.members])
    statistics = np.stack([member.statistics[scored] for member in ensemble.members])
    order = np.argsort(values, axis=0, kind="stable")
    ordered = np.take_along_axis(statistics, order[..., None], axis=0)
    count, documents = len(ensemble.members), np.asarray(ensemble.clusters)[scored]
    found = []
    for k in range(1, count + 1):
        weights = np.array([math.comb(rank, k - 1) / math.comb(count, k) for rank in range(count)])
        units = stats.by_unit(np.tensordot(weights, ordered, axes=1), documents)
        value = float(ensemble.estimator(units.sum(axis=0)))
        found.append(Oracle(k=k, value=value, interval=stats.interval(units, ensemble.estimator, seed=seed)))
    return tuple(found)


def oriented(interval: Interval | None, sign: int) -> Interval | None:
    """Return the interval of `sign` times the value."""
    if interval is None or sign > 0:
        return interval
    return Interval(
        low=-interval.high,
        high=-interval.low,
        method=interval.method,
        units=interval.units,
        confidence=interval.confidence,
    )


def _over_member(
    name: str, own: FloatArray, sums: FloatArray, estimator: Estimator, sign: int, share: float, seed: int
) -> MemberUplift:
    value = float(estimator(sums.sum(axis=0)))
    compared = stats.compare_paired(sums, own, estimator, seed=seed)
    return MemberUplift(
        name=name,
        value=value,
        interval=stats.interval(sums, estimator, seed=seed),
        uplift=sign * (float(estimator(own.sum(axis=0))) - value),
        uplift_interval=oriented(compared.interval, sign) if compared else None,
        p_value=compared.p_value if compared else None,
        best_share=share,
    )


def _reselected(
    own: FloatArray, members: Sequence[FloatArray], estimator: Estimator, sign: int, seed: int
) -> tuple[FloatArray, list[float]]:
    """Return the uplift in each resample, and how often each member was the best."""
    rng = np.random.default_rng(seed)
    targets = _in_groups(np.stack([own, *members]), rng)
    _, units, width = targets.shape
    size = max(1, _BATCH_NUMBERS // targets.size)
    uplifts: list[float] = []
    wins = np.zeros(len(members))
    columns = np.ascontiguousarray(np.moveaxis(targets, 1, 2))
    while len(uplifts) < RESAMPLES:
        drawn = rng.integers(0, units, size=(min(size, RESAMPLES - len(uplifts)), units))
        sums = np.stack([[column[drawn].sum(axis=-1) for column in target] for target in columns])
        values = sign * estimator(sums.transpose(0, 2, 1).reshape(-1, width)).reshape(len(targets), -1)
        best = values[1:].argmax(axis=0)
        wins += np.bincount(best, minlength=len(members))
        uplifts += (values[0] - values[1:].max(axis=0)).tolist()
    shares: list[float] = (wins / RESAMPLES).tolist()
    return np.asarray(uplifts), shares


def _ends(resampled: FloatArray) -> tuple[float | None, float | None]:
    """Return the ends of the uplift's interval; None where it is undefined in a resample."""
    if not np.isfinite(resampled).all():
        return None, None
    tail = (1 - CONFIDENCE) / 2
    return float(np.quantile(resampled, tail)), float(np.quantile(resampled, 1 - tail))


def _in_groups(targets: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Sum documents in random groups where they are more than a bootstrap's largest number; groups are drawn then."""
    units = targets.shape[1]
    if units <= stats.BOOTSTRAP_UNITS:
        return targets
    group = rng.permutation(units) % stats.BOOTSTRAP_UNITS
    return np.stack([stats.by_unit(target, group) for target in targets])
