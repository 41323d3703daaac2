"""Search for the largest rate that meets an SLO: which rate to probe next, and what the probes show. Pure.

The rate is doubled until a probe fails (or halved until one passes); then the ratio between the two is halved. A probe
passes only where it meets the limits with certainty, so noise can only lower the result. The certainty of each probe is
so high that the probability of any wrong pass stays below 1 - confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vlmhyperbench.analysis.results import CONFIDENCE
from vlmhyperbench_sdk.errors import InvalidInput

MAX_PROBES = 10
RESOLUTION = 0.05
"""The search ends where the smallest failed rate exceeds the largest passed rate by at most this share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A rate that was tried."""

    rate_per_s: float
    passed: bool
    """Whether every limit is certainly met and the measurement is valid."""
    reason: str | None = None
    """Why it did not pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateFound:
    """Result of a search."""

    passed_per_s: float | None
    """Largest rate that passed, below every rate that failed; None where no rate passed."""
    failed_per_s: float | None
    """Smallest rate that failed; None where no rate failed: the true rate may be much higher."""
    confidence: float
    """Confidence that the true percentiles meet their limits at the rate that passed."""
    probes: tuple[Probe, ...]

    @property
    def is_reached(self) -> bool:
        """Whether any rate passed."""
        return self.passed_per_s is not None


def certainty_of_probe(*, confidence: float = CONFIDENCE, max_probes: int = MAX_PROBES) -> float:
    """Return the certainty of each probe with which all of them together have `confidence` (Bonferroni).

    Raises:
        InvalidInput: there is no probe, or the confidence is not between 0 and 1.
    """
    if max_probes < 1 or not 0 < confidence < 1:
        raise InvalidInput("A search needs at least one probe, and a confidence between 0 and 1.")
    return 1 - (1 - confidence) / max_probes


def next_rate(
    probes: Sequence[Probe],
    *,
    first_per_s: float,
    max_per_s: float,
    min_per_s: float = 0.0,
    max_probes: int = MAX_PROBES,
) -> float | None:
    """Return the rate to probe next; None where the search is over.

    Args:
        probes: Probes so far.
        first_per_s: First rate.
        max_per_s: Largest rate to probe.
        min_per_s: Smallest rate to probe after the first: a probe at a lower rate would last too long.
        max_probes: Largest number of probes.
    """
    if not probes:
        return min(first_per_s, max_per_s)
    if len(probes) >= max_probes:
        return None
    passed, failed = _bracket(probes)
    if failed is None:
        highest = max(probe.rate_per_s for probe in probes)
        return min(2 * highest, max_per_s) if highest < max_per_s else None
    if passed is None:
        return failed / 2 if failed / 2 >= min_per_s else None
    return (passed * failed) ** 0.5 if failed > passed * (1 + RESOLUTION) else None


def conclude(probes: Sequence[Probe], *, confidence: float = CONFIDENCE) -> RateFound:
    """Return the result of the probes."""
    passed, failed = _bracket(probes)
    return RateFound(passed_per_s=passed, failed_per_s=failed, confidence=confidence, probes=tuple(probes))


def _bracket(probes: Sequence[Probe]) -> tuple[float | None, float | None]:
    """Return the largest passed rate below all failed rates, and the smallest failed rate."""
    failed = min((probe.rate_per_s for probe in probes if not probe.passed), default=None)
    passes = [probe.rate_per_s for probe in probes if probe.passed]
    return max((rate for rate in passes if failed is None or rate < failed), default=None), failed
