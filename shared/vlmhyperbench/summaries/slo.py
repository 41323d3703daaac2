"""The SLO of a run: its goodput, and a verdict on each limit (`analysis.slo`)."""

from __future__ import annotations

from collections.abc import Mapping

import polars

from vlmhyperbench.analysis.results import Goodput, LimitVerdict
from vlmhyperbench.analysis.slo import check_limits, meets_all
from vlmhyperbench.analysis.steady import goodput_of
from vlmhyperbench.analysis.times import floats_of
from vlmhyperbench.domain.slo import slo_metric
from vlmhyperbench.summaries.spans import ANSWERED
from vlmhyperbench.summaries.tokens import LONGEST_GAP

_COLUMNS = {"ttft": "ttft_user_ns", "tpot": "tpot_ns", "latency": "latency_ns", "itl": LONGEST_GAP}


def slo_of(
    rows: polars.DataFrame, limits_ms: Mapping[str, float], *, scheduled: int, failed: int, window_s: float | None
) -> tuple[Goodput | None, tuple[LimitVerdict, ...]]:
    """Return the goodput and the verdict on each limit whose times were read.

    There is no goodput without limits, without a window, or where gaps are limited and were not read.

    Args:
        rows: Requests that the run sent itself.
        limits_ms: Name of the limit → milliseconds.
        scheduled: Number of requests that were to be sent.
        failed: Number of requests without a token; they exceed every limit.
        window_s: Time that the requests took together.
    """
    answered = rows.filter(ANSWERED)
    times = {name: floats_of(answered[column]) for name, column in _COLUMNS.items() if column in rows.columns}
    verdicts = check_limits(times, limits_ms, failed=failed) if scheduled else ()
    if not limits_ms or window_s is None or any(slo_metric(name) not in times for name in limits_ms):
        return None, verdicts
    met = int(meets_all(times, limits_ms).sum())
    return goodput_of(met, scheduled=scheduled, duration_s=window_s), verdicts
