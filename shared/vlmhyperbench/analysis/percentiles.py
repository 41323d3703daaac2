"""Percentiles of a load with their uncertainty: failures count as infinite, and few requests certify little.

Pure. Requests are taken to be independent, as MLPerf takes them; where a queue builds up they are not, and the bounds
are then too narrow. Repeats of the whole measurement (`repeats.py`) do not need that.
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
    """Describe the percentiles of what was measured.

    Args:
        values: Of the requests that succeeded, in any order and unit.
        failed: Requests that have no value since they failed; each counts as longer than any.
        percents: Which percentiles, each above 0 and below 100.
        confidence: Of the intervals.
        certainty: Of what is certified.

    Raises:
        InvalidInput: a percentile, a confidence or the count of failures is out of range.
    """
    ordered = sorted(values)
    if failed < 0:
        raise InvalidInput(f"There cannot be {failed} failures.")
    return tuple(_percentile(ordered, failed, percent, confidence, certainty) for percent in percents)


def order_ranks(n: int, percent: float, *, confidence: float = CONFIDENCE) -> tuple[int | None, int | None]:
    """Return the ranks, from 1 on, of the two values between which a percentile lies; None where no value bounds it.

    The number of values below a percentile p is binomial (n, p), whatever they are distributed like; each end is
    missed with (1 - confidence) / 2 at most (David and Nagaraja 2003, Order Statistics, section 7.1).

    Raises:
        InvalidInput: the percentile or the confidence is out of range.
    """
    p, tail = _share(percent), (1 - _checked(confidence)) / 2

    def at_most(k: int) -> float:
        return float(special.bdtr(k, n, p))

    low = bisect_right(range(n), tail, key=at_most)
    high = bisect_left(range(n), 1 - tail, key=at_most) + 1
    return low or None, high if high <= n else None


def overlatency(n: int, percent: float, *, certainty: float = CERTAINTY) -> int | None:
    """Return how many of n requests may exceed a limit that the percentile still keeps for certain; None if not even 0.

    The largest t for which t or fewer of n exceed the true percentile with a chance of 1 - certainty at most (MLPerf
    loadgen, `early_stopping.cc`, with tolerance 0; MLPerf Inference Rules, appendix on early stopping).

    Raises:
        InvalidInput: the percentile or the certainty is out of range.
    """
    over, most = 1 - _share(percent), 1 - _checked(certainty)
    count = bisect_right(range(n), most, key=lambda t: float(special.bdtr(t, n, over)))
    return count - 1 if count else None


def is_certain(n: int, over: int, percent: float, *, certainty: float = CERTAINTY) -> bool:
    """Say whether a percentile keeps a limit that `over` of n requests exceeded: MLPerf's rule of server.

    Raises:
        InvalidInput: the percentile or the certainty is out of range.
    """
    most = overlatency(n, percent, certainty=certainty)
    return most is not None and over <= most


def min_requests(percent: float, *, over: int = 1, certainty: float = CERTAINTY) -> int:
    """Return the fewest requests of which `over` may exceed a limit that the percentile keeps for certain.

    With `over` 1, the floor of MLPerf's estimates: 64 for p90, 662 for p99.

    Raises:
        InvalidInput: the percentile, the certainty or the count is out of range.
    """
    if over < 0:
        raise InvalidInput(f"There cannot be {over} requests over a limit.")
    exceeds, most = 1 - _share(percent), 1 - _checked(certainty)
    n = over + 1
    while float(special.bdtr(over, 2 * n, exceeds)) > most:
        n *= 2
    # More requests with as many over the limit are only less likely.
    return bisect_left(
        range(2 * n + 1), -most, lo=over + 1, key=lambda count: -float(special.bdtr(over, count, exceeds))
    )


def _percentile(
    ordered: Sequence[float], failed: int, percent: float, confidence: float, certainty: float
) -> Percentile:
    n = len(ordered) + failed
    low, high = order_ranks(n, percent, confidence=confidence)
    # Of all requests, those that failed ranked last.
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
        least = min_requests(percent, certainty=certainty)
        return f"to certify p{percent:g} takes {least} requests, and there are {n}"
    if certified > succeeded:
        return f"{n - succeeded} of {n} requests failed, so p{percent:g} cannot be certified"
    return None


def _at(ordered: Sequence[float], rank: int | None) -> float | None:
    return ordered[rank - 1] if rank is not None and rank <= len(ordered) else None


def _share(percent: float) -> float:
    if not 0 < percent < 100:
        raise InvalidInput(f"A percentile lies between 0 and 100; {percent} does not.")
    return percent / 100


def _checked(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise InvalidInput(f"A confidence lies between 0 and 1; {confidence} does not.")
    return confidence
