"""Quality against latency and memory: the runs that no other run beats in both.

Only runs with a row for each request take part: values of a part of the samples are not values of the data set.
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
_FRONT, _REST = "not beaten", "beaten"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A run with what it reached by its primary metric."""

    run: RunSummary
    quality: Quality
    """By the primary metric, over all its answers."""

    @property
    def label(self) -> str:
        """Its name, with a mark if its speeds are invalid."""
        return marked(self.run.name, self.run.performance)

    @property
    def latency_ms(self) -> float | None:
        """Median; None if it was not measured, or does not measure the whole run."""
        times = self.run.performance.times.get("latency_ms")
        return None if times is None or self.run.performance.is_no_measure else times.p50

    @property
    def memory_mib(self) -> float | None:
        """The peak in MiB."""
        peak = self.run.performance.peak_memory_bytes
        return None if peak is None else peak / _MIB

    @property
    def why_partial(self) -> str:
        """Why its value is over a part of the requests, as a clause; empty if it is over all of them.

        Model failures, answers without a value and unreadable samples do not make a run partial: the policy of the
        run, the bounds and the data set account for them.
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
    """Return the section; None if fewer than two runs with the first run's data and metric have both numbers.

    A metric without a direction has no section. Memory is compared between runs that measured it of the same devices
    as the first run. Runs whose values are over a part of the requests are left out and named, also if nothing is
    left to draw.
    """
    candidates = [Candidate(run=run, quality=quality) for run in runs for quality in overall(run)[:1]]
    direction = candidates[0].quality.identity.description.direction if candidates else None
    if direction is None:
        return None
    comparable = [candidate for candidate in candidates if _has_same_task(candidate, candidates[0])]
    timed = [candidate for candidate in comparable if _is_same_measurement(candidate, comparable[0])]
    kinds = [candidate.run.performance.peak_memory_of for candidate in comparable]
    of = next((kind for kind in kinds if kind is not None), None)
    same_devices = [candidate for candidate, kind in zip(comparable, kinds, strict=True) if kind == of]
    axes = Axis(title="latency, p50", unit="ms"), Axis(title=f"peak memory of the {of}", unit="MiB")
    by_latency = _points(timed, [candidate.latency_ms for candidate in timed], of_speed=True)
    by_memory = _points(same_devices, [candidate.memory_mib for candidate in same_devices], of_speed=False)
    drawn = [("latency", "median latency", axes[0], by_latency), ("memory", "peak memory", axes[1], by_memory)]
    label = comparable[0].quality.label
    figures, sentences, left_out = [], [], dict[str, str]()
    for name, words, axis, points in drawn:
        if len(points) < 2:
            continue
        partial = {point.candidate.run.name: why for point in points if (why := point.candidate.why_partial)}
        left_out |= partial
        spots = _spots([point for point in points if not point.candidate.why_partial], direction)
        if len(spots) < 2:
            sentences.append(f"By {in_sentence(label)} and {words}, there are fewer than two runs to compare.")
            continue
        note = _how_to_read(direction) + _say_left_out(partial)
        y = Axis(title=f"{label}, {direction} is better")
        title = f"{label} against {words}"
        figures.append(
            front_figure(f"quality-and-{name}", title, x=axis, y=y, spots=spots, front=_FRONT, rest=_REST, note=note)
        )
        best = listed([spot.label for spot in spots if spot.is_front])
        sentences.append(f"By {in_sentence(label)} and {words}, no run beats {best}.")
    if not sentences:
        return None
    lead = " ".join(sentences) + _say_left_out(left_out)
    return Section(name="trade-offs", title="Quality against speed and memory", lead=lead, blocks=tuple(figures))


def _say_left_out(reasons: Mapping[str, str]) -> str:
    """Name the runs that are left out, with reasons; empty if there are none."""
    runs = listed([f"{run} ({why})" for run, why in reasons.items()])
    return f" Left out, because their values are of a part of the requests: {runs}." if runs else ""


def _has_same_task(candidate: Candidate, first: Candidate) -> bool:
    return (
        candidate.quality.identity.is_same(first.quality.identity)
        and candidate.run.spec.dataset == first.run.spec.dataset
        and candidate.run.spec.task == first.run.spec.task
    )


def _is_same_measurement(candidate: Candidate, first: Candidate) -> bool:
    return not measured_apart(candidate.run.measurement, first.run.measurement)


def _points(comparable: Sequence[Candidate], costs: Sequence[float | None], *, of_speed: bool) -> list[_Point]:
    return [
        _Point(
            candidate=candidate,
            label=candidate.label if of_speed else candidate.run.name,
            cost=cost,
            value=candidate.quality.value,
        )
        for candidate, cost in zip(comparable, costs, strict=True)
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
        f"Further left and further {'up' if direction == 'higher' else 'down'} is better; bars are 95 % intervals. "
        "A run may be beaten by chance: see the paired differences."
    )
