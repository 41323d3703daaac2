"""Metrics of a load by name, their means over repeats, and whether a mean is precise enough to stop."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vlmhyperbench.analysis.load_result import LoadResult
from vlmhyperbench.analysis.results import Distribution
from vlmhyperbench_sdk.errors import InvalidInput

if TYPE_CHECKING:
    from vlmhyperbench.analysis.repeats import RepeatedMean

RATES: Final = ("requests_per_s", "output_tokens_per_s", "goodput_per_s")
_TIMES: Final[Mapping[str, str]] = {"ttft": "ttft_user_ms", "tpot": "tpot_ms", "latency": "latency_ms"}
_TIME: Final = re.compile(rf"(?P<time>{'|'.join(_TIMES)})_(?P<statistic>mean|p50|p90|p99)")
STATED: Final = (*RATES, *(f"{time}_{percentile}" for time in _TIMES for percentile in ("p50", "p90", "p99")))
"""Metrics whose means over repeats every result contains."""

LOOK_RULE: Final = (
    "after each repeat from the third on; look k has a confidence of 1 - 0.05 / (k (k + 1)), "
    "so that all looks together have 95 %"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Until:
    """Stop rule of repeats: half the interval of a metric's mean is at most `precision` times the mean."""

    metric: str
    precision: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Result of repeats that may stop early."""

    metric: str
    precision: float
    rule: str
    is_reached: bool
    mean: RepeatedMean | None
    """Mean with an interval that allows for looking after every repeat; None before the third."""


def check_metric(name: str) -> None:
    """Check that every result has a metric.

    Raises:
        InvalidInput: the name is neither one of `RATES` nor a mean or percentile of a time.
    """
    if name not in RATES and not _TIME.fullmatch(name):
        raise InvalidInput(
            f"--precision-of {name} is no metric of a load.",
            cure=f"Write one of {', '.join(RATES)}, or ttft, tpot or latency with _mean, _p50, _p90 or _p99.",
        )


def value_of(result: LoadResult, name: str) -> float | None:
    """Return a metric of a result: a rate, a mean over successful requests, or a percentile with failures as infinite.

    Raises:
        InvalidInput: there is no such metric.
    """
    check_metric(name)
    parts = _TIME.fullmatch(name)
    if parts is None:
        rate = result.metrics[name]
        return rate if isinstance(rate, float) else None
    column = _TIMES[parts["time"]]
    if parts["statistic"] == "mean":
        distribution = result.metrics[column]
        return distribution.mean if isinstance(distribution, Distribution) else None
    percent = float(parts["statistic"][1:])
    percentiles = result.statistics.percentiles[column]
    return next(percentile.adjusted for percentile in percentiles if percentile.percent == percent)


def mean_over(runs: Sequence[LoadResult], name: str, *, may_stop: bool) -> RepeatedMean:
    """Return a metric's mean over repeats.

    Args:
        runs: The repeats.
        name: The metric.
        may_stop: Whether repeats may stop once they are precise; the interval then allows for looking after each.
    """
    from vlmhyperbench.analysis.repeats import look, mean_of_repeats

    values = [value_of(run, name) for run in runs]
    return (look(values) if may_stop else None) or mean_of_repeats(values)


def look_at(runs: Sequence[LoadResult], until: Until) -> Stopped:
    """Return whether the repeats so far are precise enough."""
    from vlmhyperbench.analysis.repeats import look

    mean = look([value_of(run, until.metric) for run in runs])
    precision = None if mean is None else mean.precision
    return Stopped(
        metric=until.metric,
        precision=until.precision,
        rule=LOOK_RULE,
        is_reached=precision is not None and precision <= until.precision,
        mean=mean,
    )
