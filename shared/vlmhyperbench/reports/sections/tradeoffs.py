"""Quality against what it costs: which runs nothing beats in both.

Only runs whose requests all have their rows take part: a value over what was answered before a crash is no value of the
data set, and what a few answers took is not what all of them take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vlmhyperbench.analysis.figures import Axis, Spot, front_figure
from vlmhyperbench.analysis.pareto import Direction, non_dominated
from vlmhyperbench.domain.identity import measured_apart
from vlmhyperbench.reports.document import Section, write_number
from vlmhyperbench.reports.sections.quality import Quality, overall
from vlmhyperbench.reports.sections.validity import marked
from vlmhyperbench.reports.sections.wording import in_sentence, listed, plural
from vlmhyperbench.summaries.summary import RunSummary

_MIB = 2**20
_FRONT, _REST = "nothing beats it", "beaten"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A run with what it reached by its primary metric."""

    run: RunSummary
    quality: Quality
    """By the primary metric, over all its answers."""

    @property
    def label(self) -> str:
        """Its name, and beside it that its speeds are void, where they are."""
        return marked(self.run.name, self.run.performance)

    @property
    def latency_ms(self) -> float | None:
        """Median; None where it was not measured, or before and after an interruption."""
        times = self.run.performance.times.get("latency_ms")
        return None if times is None or self.run.performance.is_no_measure else times.p50

    @property
    def memory_mib(self) -> float | None:
        """The peak in MiB."""
        peak = self.run.performance.peak_memory_bytes
        return None if peak is None else peak / _MIB

    @property
    def why_partial(self) -> str:
        """Why its value is over a part of the requests, as part of a sentence; empty where it is over all of them.

        A failure of the model counts as the run's policy says, an answer without a value has its bounds, and a sample
        that cannot be read is asked of no run: none of them makes a run partial.
        """
        counts = self.run.counts
        lost = counts.infrastructure_failures - counts.unreadable
        of = f"of {plural(counts.requested, 'request')}"
        reasons = [
            f"{write_number(number, 0)} {of} {what}"
            for number, what in ((counts.missing, "without a row"), (lost, "lost to the infrastructure"))
            if number
        ]
        return listed([*reasons, "stopped early by its rule"] if self.run.is_stopped else reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """A candidate that has both numbers of a figure."""

    candidate: Candidate
    label: str
    cost: float
    value: float


def trade_offs(runs: Sequence[RunSummary]) -> Section | None:
    """Return the section, or None where fewer than two runs of the first one's data and metric have both numbers.

    A metric of which nobody says which end is good has none either. Memory is compared between runs that took it of
    the same kind of machine as the first. Runs whose values are over a part of the requests are left out and named,
    also where that leaves nothing to draw.
    """
    candidates = [Candidate(run=run, quality=quality) for run in runs for quality in overall(run)[:1]]
    direction = candidates[0].quality.identity.description.direction if candidates else None
    if direction is None:
        return None
    alike = [candidate for candidate in candidates if _is_alike(candidate, candidates[0])]
    timed = [candidate for candidate in alike if _is_driven_alike(candidate, alike[0])]
    kinds = [candidate.run.performance.peak_memory_of for candidate in alike]
    of = next((kind for kind in kinds if kind is not None), None)
    near = [candidate for candidate, kind in zip(alike, kinds, strict=True) if kind == of]
    axes = Axis(title="latency, p50", unit="ms"), Axis(title=f"peak memory of the {of}", unit="MiB")
    by_latency = _points(timed, [candidate.latency_ms for candidate in timed], of_speed=True)
    by_memory = _points(near, [candidate.memory_mib for candidate in near], of_speed=False)
    drawn = [("latency", "median latency", axes[0], by_latency), ("memory", "peak memory", axes[1], by_memory)]
    label = alike[0].quality.label
    figures, sentences, left_out = [], [], dict[str, str]()
    for name, words, axis, points in drawn:
        if len(points) < 2:
            continue
        partial = {point.candidate.run.name: why for point in points if (why := point.candidate.why_partial)}
        left_out |= partial
        spots = _spots([point for point in points if not point.candidate.why_partial], direction)
        if len(spots) < 2:
            sentences.append(f"By {in_sentence(label)} and {words}, fewer than two runs are left to compare.")
            continue
        note = _how_to_read(direction) + _say_left_out(partial)
        y = Axis(title=f"{label}, {direction} is better")
        title = f"{label} against {words}"
        figures.append(
            front_figure(f"quality-and-{name}", title, x=axis, y=y, spots=spots, front=_FRONT, rest=_REST, note=note)
        )
        best = listed([spot.label for spot in spots if spot.is_front])
        sentences.append(f"By {in_sentence(label)} and {words}, nothing beats {best}.")
    if not sentences:
        return None
    lead = " ".join(sentences) + _say_left_out(left_out)
    return Section(name="trade-offs", title="Quality against speed and memory", lead=lead, blocks=tuple(figures))


def _say_left_out(reasons: Mapping[str, str]) -> str:
    """Name runs with why their values are over a part of the requests; empty where there are none."""
    runs = listed([f"{run} ({why})" for run, why in reasons.items()])
    return f" Left out for values over a part of the requests: {runs}." if runs else ""


def _is_alike(candidate: Candidate, first: Candidate) -> bool:
    return (
        candidate.quality.identity.is_same(first.quality.identity)
        and candidate.run.spec.dataset == first.run.spec.dataset
        and candidate.run.spec.task == first.run.spec.task
    )


def _is_driven_alike(candidate: Candidate, first: Candidate) -> bool:
    return not measured_apart(candidate.run.measurement, first.run.measurement)


def _points(alike: Sequence[Candidate], costs: Sequence[float | None], *, of_speed: bool) -> list[_Point]:
    return [
        _Point(
            candidate=candidate,
            label=candidate.label if of_speed else candidate.run.name,
            cost=cost,
            value=candidate.quality.value,
        )
        for candidate, cost in zip(alike, costs, strict=True)
        if cost is not None and candidate.quality.value is not None
    ]


def _spots(points: Sequence[_Point], direction: Direction) -> list[Spot]:
    flags = non_dominated([(point.cost, point.value) for point in points], ["lower", direction])
    return [
        Spot(
            label=point.label,
            x=point.cost,
            y=point.value,
            low=point.candidate.quality.low,
            high=point.candidate.quality.high,
            is_front=flag is True,
        )
        for point, flag in zip(points, flags, strict=True)
    ]


def _how_to_read(direction: Direction) -> str:
    return (
        f"Further left takes less, further {'up' if direction == 'higher' else 'down'} is better; bars are 95 % "
        "intervals. What is beaten may still differ by chance alone: see the paired differences."
    )
