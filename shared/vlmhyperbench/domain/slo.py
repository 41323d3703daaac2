"""The names of an SLO's limits: a time with or without a percentile, such as `ttft` and `ttft_p99`."""

from __future__ import annotations

import re
from typing import Final

from vlmhyperbench_sdk.errors import InvalidInput

SLO_METRICS: Final = ("ttft", "tpot", "itl", "latency")
"""The times that can have a limit."""
SLO_PERCENT: Final = 99
"""The percentile of a limit whose name has none."""
_LIMIT: Final = re.compile(rf"(?P<metric>{'|'.join(SLO_METRICS)})(_p(?P<percent>[1-9]\d?))?")


def slo_metric(name: str) -> str:
    """Return the time of a limit: `ttft` for `ttft_p99`.

    Raises:
        InvalidInput: the name is not that of a limit.
    """
    return _read(name)["metric"]


def slo_percent(name: str) -> int:
    """Return the percentile of a limit: 90 for `ttft_p90`, `SLO_PERCENT` for `ttft`.

    Raises:
        InvalidInput: the name is not that of a limit.
    """
    return int(_read(name)["percent"] or SLO_PERCENT)


def _read(name: str) -> re.Match[str]:
    match = _LIMIT.fullmatch(name)
    if match is None:
        raise InvalidInput(
            f"{name[:100]!r} is not a limit of an SLO.",
            cure=f"Write {', '.join(SLO_METRICS)}, optionally with a percentile from 1 to 99: ttft_p99.",
        )
    return match
