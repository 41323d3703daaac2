"""What a run's requests say of its SLO: goodput, and each limit with what is certain of it."""

from __future__ import annotations

from collections.abc import Mapping

import polars

from vlmhyperbench.analysis.results import Goodput, LimitVerdict
from vlmhyperbench.analysis.slo import check_limit
from vlmhyperbench.analysis.steady import goodput_of
from vlmhyperbench.domain.slo import slo_metric
from vlmhyperbench.domain.units import NS_PER_MS
from vlmhyperbench.summaries.tokens import LONGEST_GAP

_HAS_GAPS = (polars.col("latency_ns") > polars.col("ttft_user_ns")).fill_null(value=False)
"""Of those, a request keeps no limit on gaps that nobody could count; an answer of one burst has none to bound."""
_COLUMNS = {"ttft": "ttft_user_ns", "tpot": "tpot_ns", "latency": "latency_ns", "itl": LONGEST_GAP}


def goodput_in(
    rows: polars.DataFrame, limits_ms: Mapping[str, float], *, scheduled: int, window_s: float | None
) -> Goodput | None:
    """Count the requests that kept every limit, as `phase_statistics.keeps_all` does of a load.

    None without limits, without a window, or where gaps are bounded and nobody read them.

    Args:
        rows: the requests that the run asked itself.
        limits_ms: name of the limit → milliseconds.
        scheduled: how many there were to be.
        window_s: how long they took together.
    """
    is_known = all(_COLUMNS[slo_metric(name)] in rows.columns for name in limits_ms)
    if not limits_ms or window_s is None or not is_known:
        return None
    met = (polars.col("status") == "ok") & polars.col("latency_ns").is_not_null()
    for name, limit_ms in limits_ms.items():
        met &= (polars.col(_COLUMNS[slo_metric(name)]) <= limit_ms * NS_PER_MS).fill_null(~_HAS_GAPS)
    return goodput_of(rows.filter(met).height, scheduled=scheduled, duration_s=window_s)


def judged_limits(rows: polars.DataFrame, limits_ms: Mapping[str, float], *, failed: int) -> tuple[LimitVerdict, ...]:
    """Judge every limit whose times were measured; `failed` requests exceed each."""
    good = rows.filter(polars.col("status") == "ok")
    known = {name: _COLUMNS[slo_metric(name)] for name in limits_ms}
    return tuple(
        check_limit(
            name,
            limits_ms[name],
            (good[column].drop_nulls() / NS_PER_MS).to_list(),
            failed=failed + good.filter(_HAS_GAPS & polars.col(column).is_null()).height,
        )
        for name, column in known.items()
        if column in rows.columns
    )
