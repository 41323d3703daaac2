"""A metric and a report that do not end, by dotted path, so that a test can end a job in the middle of them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Never

from vlmhyperbench_sdk.protocols import MetricDescription


def _never_end(marker: str) -> Never:
    """Write the id of the process to a file, and stay."""
    file = Path(marker)
    file.with_suffix(".tmp").write_text(str(os.getpid()), encoding="ascii")
    file.with_suffix(".tmp").replace(file)
    while True:
        time.sleep(3600)


class EndlessMetric:
    """A metric whose measuring does not end; it says in `marker` which process it is in."""

    def __init__(self, *, marker: str, profile: str = "v1") -> None:
        self._marker, self._profile = marker, profile

    @property
    def description(self) -> MetricDescription:
        """What a metric says of itself."""
        return MetricDescription(
            name="endless",
            profile=self._profile,
            version="1.0.0",
            title="Endless",
            kind="text",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="mean",
            proportion=True,
            normaliser="none",
            formula="none",
            source="a test",
        )

    def measure(self, predictions: Sequence[str], references: Sequence[Sequence[str]], *, metadata: object) -> Never:
        """Measure for ever."""
        _never_end(self._marker)

    def combine(self, sums: Mapping[str, float]) -> float | None:
        """Return nothing."""


class EndlessReport:
    """A report whose writing does not end; it says in `marker` which process it is in."""

    def __init__(self, *, marker: str) -> None:
        self._marker = marker

    def write(self, report: Mapping[str, object]) -> Never:
        """Write for ever."""
        _never_end(self._marker)
