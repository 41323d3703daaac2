"""How long jobs take that ask a target, by what earlier ones took. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Time of the jobs of a target: that of each answer, and once what is not answers, as loading and the warm-up."""

    answer_s: float
    start_s: float = 0.0

    def seconds(self, answers: float) -> float:
        """Return how long a job takes that needs some answers."""
        return self.start_s + self.answer_s * answers

    def times(self, factor: float) -> Pace:
        """Return the pace of a target that is slower by a factor."""
        return Pace(answer_s=self.answer_s * factor, start_s=self.start_s * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paces:
    """What is known of the jobs of a target; all three are equal where only one was measured."""

    mean: Pace
    fastest: Pace
    """Of the fastest answers and the shortest start, which may be those of two jobs."""
    slowest: Pace
