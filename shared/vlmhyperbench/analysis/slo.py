"""Limits of an SLO: which requests meet all of them, and whether a percentile meets one, with certainty or not. Pure.

A time that is unknown, such as the TPOT of uncounted tokens, meets no limit. The exception is an answer that came in
one burst: it has no gaps to limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from vlmhyperbench.analysis.distributions import FloatArray, known
from vlmhyperbench.analysis.percentiles import is_certain, percentiles_of
from vlmhyperbench.analysis.results import CERTAINTY, LimitVerdict
from vlmhyperbench.domain.slo import slo_metric, slo_percent
from vlmhyperbench.domain.units import NS_PER_MS

LimitedTimes: TypeAlias = Mapping[str, FloatArray]
"""Name of a time in `SLO_METRICS` → nanoseconds of each answered request, NaN where unknown. Shape: (answers,).

`itl` is the longest gap of each request; it may be missing from the mapping, the other times may not.
"""


def meets_all(times: LimitedTimes, limits_ms: Mapping[str, float]) -> npt.NDArray[np.bool_]:
    """Say of each answered request whether it meets every limit. Shape: (answers,).

    Raises:
        InvalidInput: a name is not a limit's.
    """
    met = np.ones(times["latency"].size, dtype=np.bool_)
    for name, limit_ms in limits_ms.items():
        values = times[slo_metric(name)]
        met &= (values <= limit_ms * NS_PER_MS) | (np.isnan(values) & ~_is_unknown(times, slo_metric(name)))
    return met


def check_limits(
    times: LimitedTimes, limits_ms: Mapping[str, float], *, failed: int, certainty: float = CERTAINTY
) -> tuple[LimitVerdict, ...]:
    """Check each limit whose times were measured.

    Args:
        times: Of the answered requests.
        limits_ms: Name of the limit → milliseconds.
        failed: Number of requests without an answer; they exceed every limit.
        certainty: As in `check_limit`.

    Raises:
        InvalidInput: a name is not a limit's.
    """
    metrics = {name: slo_metric(name) for name in limits_ms}
    return tuple(
        check_limit(
            name,
            limits_ms[name],
            (known(times[metric]) / NS_PER_MS).tolist(),
            failed=failed + int(_is_unknown(times, metric).sum()),
            certainty=certainty,
        )
        for name, metric in metrics.items()
        if metric in times
    )


def check_limit(
    name: str, limit_ms: float, values_ms: Sequence[float], *, failed: int, certainty: float = CERTAINTY
) -> LimitVerdict:
    """Check one limit.

    Args:
        name: Name of the limit, as `slo_percent` reads it.
        limit_ms: Largest value that meets the limit.
        values_ms: Times of the requests that have one. Shape: (requests,).
        failed: Number of requests that failed.
        certainty: Confidence of `is_certain`.

    Raises:
        InvalidInput: the name is not a limit's.
    """
    percent = slo_percent(name)
    n, over = len(values_ms) + failed, failed + sum(value > limit_ms for value in values_ms)
    (percentile,) = percentiles_of(values_ms, failed=failed, percents=[percent], certainty=certainty)
    return LimitVerdict(
        name=name,
        limit_ms=limit_ms,
        percent=percent,
        n=n,
        over=over,
        value_ms=percentile.adjusted,
        is_kept=percentile.adjusted is not None and percentile.adjusted <= limit_ms,
        is_certain=is_certain(n, over, percent, certainty=certainty),
        certainty=certainty,
    )


def _is_unknown(times: LimitedTimes, metric: str) -> npt.NDArray[np.bool_]:
    """Say of which answers a time is unknown although they have one. Shape: (answers,)."""
    is_one_burst: npt.NDArray[np.bool_] = times["ttft"] == times["latency"]
    return np.isnan(times[metric]) & ~is_one_burst
