"""Whether a load kept each limit of its SLO, and whether so many requests show it for certain. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench.analysis.percentiles import is_certain, percentiles_of
from vlmhyperbench.analysis.results import CERTAINTY, LimitVerdict
from vlmhyperbench.domain.slo import slo_percent


def check_limit(
    name: str, limit_ms: float, values_ms: Sequence[float], *, failed: int, certainty: float = CERTAINTY
) -> LimitVerdict:
    """Check one limit.

    Args:
        name: As `slo_percent` reads it.
        limit_ms: Its largest value that is kept.
        values_ms: Of the requests that succeeded and have such a time. Shape: (requests,).
        failed: Requests that failed.
        certainty: Of `is_certain`.

    Raises:
        InvalidInput: the name is no limit.
    """
    percent = slo_percent(name)
    n, over = len(values_ms) + failed, failed + sum(value > limit_ms for value in values_ms)
    (found,) = percentiles_of(values_ms, failed=failed, percents=[percent], certainty=certainty)
    return LimitVerdict(
        name=name,
        limit_ms=limit_ms,
        percent=percent,
        n=n,
        over=over,
        value_ms=found.adjusted,
        is_kept=found.adjusted is not None and found.adjusted <= limit_ms,
        is_certain=is_certain(n, over, percent, certainty=certainty),
        certainty=certainty,
    )
