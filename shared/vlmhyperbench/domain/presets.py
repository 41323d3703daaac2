"""Numbers of the presets of loads, by published rules; `load.presets` says where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

Preset = Literal["quick", "official", "vlm"]

QUICK_SECONDS: Final = 10.0
OFFICIAL_SECONDS: Final = 600.0
SAMPLES_PER_QUERY: Final = 8
MIN_SINGLE_STREAM: Final = 64
MIN_QUERIES: Final = 662
MIN_OFFLINE: Final = 24_576
"""Below 64 requests, MLPerf's early stopping certifies no p90, and below 662 no p99; minimum samples of offline."""


MIN_REQUESTS: Final[Mapping[str, int]] = {
    "single_stream": MIN_SINGLE_STREAM,
    "multi_stream": MIN_QUERIES * SAMPLES_PER_QUERY,
    "offline": MIN_OFFLINE,
    "server": MIN_QUERIES,
    "interactive": MIN_QUERIES,
}
"""Scenario → requests that a load of a preset other than `quick` has at least."""


def min_seconds(preset: Preset) -> float:
    """Return how long a load of a preset lasts at least."""
    return QUICK_SECONDS if preset == "quick" else OFFICIAL_SECONDS
