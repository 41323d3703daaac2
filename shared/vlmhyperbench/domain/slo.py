"""The names of an SLO's limits: a time, with or without a percentile, as `ttft` and `ttft_p99`."""

from __future__ import annotations

import re
from typing import Final

from vlmhyperbench_sdk.errors import InvalidInput

SLO_METRICS: Final = ("ttft", "tpot", "itl", "latency")
"""The times that a limit may bound."""
SLO_PERCENT: Final = 99
"""The percentile that a limit bounds where its name has none."""
_LIMIT: Final = re.compile(rf"(?P<metric>{'|'.join(SLO_METRICS)})(_p(?P<percent>[1-9]\d?))?")


def slo_metric(name: str) -> str:
    """Return which time a limit bounds: `ttft` of `ttft_p99`.

    Raises:
        InvalidInput: the name is not a limit's.
    """
    return _read(name)["metric"]


def slo_percent(name: str) -> int:
    """Return which percentile a limit bounds: 90 of `ttft_p90`, `SLO_PERCENT` of `ttft`.

    Raises:
        InvalidInput: the name is not a limit's.
    """
    return int(_read(name)["percent"] or SLO_PERCENT)


def _read(name: str) -> re.Match[str]:
    found = _LIMIT.fullmatch(name)
    if found is None:
        raise InvalidInput(
            f"{name[:100]!r} is no limit of an SLO.",
            cure=f"Write {', '.join(SLO_METRICS)}, with a percentile from 1 to 99 if you like: ttft_p99.",
        )
    return found
