"""Percentiles of a load with their uncertainty; failed requests count as infinite. Pure.

Requests are assumed to be independent, as in MLPerf. Where a queue builds up they are not, and the bounds are too
narrow. Repeats of the whole measurement (`repeats.py`) do not need this assumption.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from scipy import special

from vlmhyperbench.analysis.distributions import nearest_rank, rank_of
from vlmhyperbench.analysis.results import CERTAINTY, CONFIDENCE, Percentile
from vlmhyperbench_sdk.errors import InvalidInput

PERCENTS = (50.0, 90.0, 99.0)


def percentiles_of(
    values: Iterable[float],
    *,
    failed: int = 0,
    percents: Sequence[float] = PERCENTS,
    confidence: float = CONFIDENCE,
    certainty: float = CERTAINTY,
) -> tuple[Percentile, ...]:
    """Describe percentiles of measured values.

    Args:
        values: Values of the requests that succeeded, in any order and unit.
        failed: Number of requests that failed; each counts as larger than any value.
        percents: Percentiles to describe, each above 0 and below 100.
        confidence: Confidence of the intervals.
        certainty: Confidence of the certified values.

    Raises:
        InvalidInput: a percentile, a confidence or the count of failures is out of range.
    """
    ordered = sorted(values)
    if failed < 0:
        raise InvalidInput(f"There cannot be {failed} failures.")
    return tuple(_percentile(ordered, failed, percent, confidence, certainty) for percent in percents)


def order_ranks(n: int, percent: float, *, confidence: float = CONFIDENCE) -> tuple[int | None, int | None]:
    """Return the ranks, from 1, of the two values that bound a percentile; None where no value bounds it.

    The number of values below a percentile p is binomial (n, p) for any distribution. Each end misses with a
    probability of at most (1 - confidence) / 2 (David and Nagaraja 2003, Order Statistics, section 7.1).

    Raises:
        InvalidInput: the percentile or the confidence is out of range.
    """
    p, tail = _share(percent), (1 - check_confidence(confidence)) / 2

    def at_most(k: int) -> float:
        return float(special.bdtr(k, n, p))

    low = bisect_right(range(n), tail, key=at_most)
    high = bisect_left(range(n), 1 - tail, key=at_most) + 1
    return low or None, high if high <= n else None


def overlatency(n: int, percent: float, *, certainty: float = CERTAINTY) -> int | None:
    """Return how many of n requests may exceed a limit that the percentile certainly meets; None where n is too small.

    It is the largest t for which the probability that t or fewer of n requests exceed the true percentile is at most
    1 - certainty (MLPerf loadgen, `early_stopping.cc`, with tolerance 0; MLPerf Inference Rules, appendix on early
    stopping).

    Raises:
        InvalidInput: the percentile or the certainty is out of range.
    """
    over, max_risk = 1 - _share(percent), 1 - check_confidence(certainty)
    count = bisect_right(range(n), max_risk, key=lambda t: float(special.bdtr(t, n, over)))
    return count - 1 if count else None


def is_certain(n: int, over: int, percent: float, *, certainty: float = CERTAINTY) -> bool:
    """Return whether a percentile certainly meets a limit that `over` of n requests exceed: MLPerf's server rule.

    Raises:
        InvalidInput: the percentile or the certainty is out of range.
    """
    max_over = overlatency(n, percent, certainty=certainty)
    return max_over is not None and over <= max_over


def min_requests(percent: float, *, over: int = 1, certainty: float = CERTAINTY) -> int:
    """Return the smallest number of requests of which `over` may exceed a limit that the percentile certainly meets.

    With `over` 1 it is the minimum of MLPerf's estimates: 64 for p90, 662 for p99.

    Raises:
        InvalidInput: the percentile, the certainty or the count is out of range.
    """
    if over < 0:
        raise InvalidInput(f"There cannot be {over} requests over a limit.")
    exceeds, max_risk = 1 - _share(percent), 1 - check_confidence(certainty)
    n = over + 1
    while float(special.bdtr(over, 2 * n, exceeds)) > max_risk:
        n *= 2
    # The probability falls with the number of requests, which bisection needs.
    return bisect_left(
        range(2 * n + 1), -max_risk, lo=over + 1, key=lambda count: -float(special.bdtr(over, count, exceeds))
    )


def _percentile(
    ordered: Sequence[float], failed: int, percent: float, confidence: float, certainty: float
) -> Percentile:
    n = len(ordered) + failed
    low, high = order_ranks(n, percent, confidence=confidence)
    # Failed requests have the last ranks.
    rank = rank_of(n, percent) if n else None
    over = overlatency(n, percent, certainty=certainty)
    certified = n - over + 1 if over else None
    return Percentile(
        percent=percent,
        n=n,
        failed=failed,
        plain=nearest_rank(ordered, percent),
        adjusted=_at(ordered, rank),
        low=_at(ordered, low),
        high=_at(ordered, high),
        certified=_at(ordered, certified),
        reason=_reason(len(ordered), n, percent, rank, certified, certainty),
        confidence=confidence,
        certainty=certainty,
    )


def _reason(
    succeeded: int, n: int, percent: float, rank: int | None, certified: int | None, certainty: float
) -> str | None:
    if rank is None:
        return "nothing was measured"
    if rank > succeeded:
        return f"{n - succeeded} of {n} requests failed, so p{percent:g} is infinite"
    if certified is None:
        needed = min_requests(percent, certainty=certainty)
        return f"to certify p{percent:g} takes {needed} requests, and there are {n}"
    if certified > succeeded:
        return f"{n - succeeded} of {n} requests failed, so p{percent:g} cannot be certified"
    return None


def _at(ordered: Sequence[float], rank: int | None) -> float | None:
    return ordered[rank - 1] if rank is not None and rank <= len(ordered) else None


def _share(percent: float) -> float:
    if not 0 < percent < 100:
        raise InvalidInput(f"A percentile lies between 0 and 100; {percent} does not.")
    return percent / 100


def check_confidence(confidence: float) -> float:
    """Return a confidence.

    Raises:
        InvalidInput: it is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise InvalidInput(f"A confidence lies between 0 and 1; {confidence} does not.")
    return confidence
