"""Which rate to try next in search of the largest one that keeps an SLO, and what the tries have shown. Pure.

Doubling until a rate fails (halving until one passes), then halving the ratio between the two. Only what a probe shows
for certain passes, so noise makes the answer smaller, never larger; each probe's certainty is so high that the chance
of any wrong pass among all of them stays below 1 - confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vlmhyperbench.analysis.results import CONFIDENCE
from vlmhyperbench_sdk.errors import InvalidInput

MAX_PROBES = 10
RESOLUTION = 0.05
"""The search ends where the smallest rate that failed is within so much of the largest that passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One rate that was tried."""

    rate_per_s: float
    passed: bool
    """Every limit is kept for certain, and the measurement is valid."""
    reason: str | None = None
    """Why it did not pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateFound:
    """The answer of a search."""

    passed_per_s: float | None
    """The largest rate that passed, below every one that failed; None: not reached, no rate passed."""
    failed_per_s: float | None
    """The smallest rate that failed; None: none did, and the truth may lie far above."""
    confidence: float
    """Of the whole answer: that the true percentiles keep their limits at the rate that passed."""
    probes: tuple[Probe, ...]

    @property
    def is_reached(self) -> bool:
        """Whether any rate passed."""
        return self.passed_per_s is not None


def certainty_of_probe(*, confidence: float = CONFIDENCE, max_probes: int = MAX_PROBES) -> float:
    """Return how certain each probe must be, so that all of them together are right with `confidence` (Bonferroni).

    Raises:
        InvalidInput: there is no probe, or the confidence is not between 0 and 1.
    """
    if max_probes < 1 or not 0 < confidence < 1:
        raise InvalidInput("A search needs a probe, and a confidence between 0 and 1.")
    return 1 - (1 - confidence) / max_probes


def next_rate(
    probes: Sequence[Probe],
    *,
    first_per_s: float,
    max_per_s: float,
    min_per_s: float = 0.0,
    max_probes: int = MAX_PROBES,
    resolution: float = RESOLUTION,
) -> float | None:
    """Return the rate to try next; None where the search is over.

    Args:
        probes: What was tried so far.
        first_per_s: The first rate.
        max_per_s: No rate above it is tried.
        min_per_s: No rate below it is tried but the first: a probe of so many requests would last too long.
        max_probes: After so many it is over in any case.
        resolution: How close the rates that failed and passed must come.
    """
    if not probes:
        return min(first_per_s, max_per_s)
    if len(probes) >= max_probes:
        return None
    passed, failed = _bracket(probes)
    if failed is None:
        assert passed is not None  # noqa: S101 - a probe passed or failed
        return min(2 * passed, max_per_s) if passed < max_per_s else None
    if passed is None:
        return failed / 2 if failed / 2 >= min_per_s else None
    return (passed * failed) ** 0.5 if failed > passed * (1 + resolution) else None


def conclude(probes: Sequence[Probe], *, confidence: float = CONFIDENCE) -> RateFound:
    """State what the probes have shown."""
    passed, failed = _bracket(probes)
    return RateFound(passed_per_s=passed, failed_per_s=failed, confidence=confidence, probes=tuple(probes))


def _bracket(probes: Sequence[Probe]) -> tuple[float | None, float | None]:
    """The largest rate that passed below all that failed, and the smallest that failed."""
    failed = min((probe.rate_per_s for probe in probes if not probe.passed), default=None)
    passes = [probe.rate_per_s for probe in probes if probe.passed]
    return max((rate for rate in passes if failed is None or rate < failed), default=None), failed
