"""Quality against what it costs: which runs nothing beats in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vlmhyperbench.analysis.figures import Axis, FigureSpec, Spot, front_figure
from vlmhyperbench.analysis.pareto import non_dominated
from vlmhyperbench.domain.identity import measured_apart
from vlmhyperbench.reports.document import Section
from vlmhyperbench.reports.evidence import RunEvidence
from vlmhyperbench.reports.performance import Performance
from vlmhyperbench.reports.quality import Quality
from vlmhyperbench.reports.validity import marked
from vlmhyperbench.reports.wording import in_sentence, listed

_MIB = 2**20
_FRONT, _REST = "nothing beats it", "beaten"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A run with what it reached and what it took."""

    run: RunEvidence
    quality: Quality
    """By the primary metric, over all its answers."""
    performance: Performance

    @property
    def label(self) -> str:
        """Its name, and beside it that its speeds are void, where they are."""
        return marked(self.run.name, self.performance.validity)

    @property
    def latency_ms(self) -> float | None:
        """Median; None where it was not measured, or before and after an interruption."""
        times = self.performance.times.get("latency_ms")
        return None if times is None or self.performance.is_no_measure else times.p50

    @property
    def memory_mib(self) -> float | None:
        """The peak in MiB."""
        peak = self.performance.peak_memory_bytes
        return None if peak is None else peak / _MIB

    @property
    def memory_of(self) -> str | None:
        """Whose memory the peak is: of the accelerators, or else of the engine's processes."""
        return None if self.performance.resources is None else self.performance.resources.peak_memory_of


def trade_offs(candidates: Sequence[Candidate]) -> list[Section]:
    """Return the section, or none where fewer than two runs of the first one's data and metric have both numbers.

    Memory is compared between runs that took it of the same kind of machine as the first.
    """
    alike = [one for one in candidates if _is_alike(one, candidates[0])]
    timed = [one for one in alike if _is_driven_alike(one, alike[0])]
    of = next((one.memory_of for one in alike if one.memory_of is not None), None)
    near = [one for one in alike if one.memory_of == of]
    axes = Axis(title="latency, p50", unit="ms"), Axis(title=f"peak memory of the {of}", unit="MiB")
    drawn = [
        ("latency", "median latency", axes[0], _spots(timed, [one.latency_ms for one in timed], of_speed=True)),
        ("memory", "peak memory", axes[1], _spots(near, [one.memory_mib for one in near], of_speed=False)),
    ]
    figures, sentences = [], []
    for name, words, axis, spots in drawn:
        if len(spots) < 2:
            continue
        figures.append(_figure(name, words, axis, alike[0].quality, spots))
        best = listed([spot.label for spot in spots if spot.is_front])
        sentences.append(f"By {in_sentence(alike[0].quality.label)} and {words}, nothing beats {best}.")
    if not figures:
        return []
    lead, title = " ".join(sentences), "Quality against speed and memory"
    return [Section(name="trade-offs", title=title, lead=lead, blocks=tuple(figures))]


def _is_alike(one: Candidate, first: Candidate) -> bool:
    return (
        one.quality.scored.description == first.quality.scored.description
        and one.run.spec.dataset == first.run.spec.dataset
        and one.run.spec.task == first.run.spec.task
    )


def _is_driven_alike(one: Candidate, first: Candidate) -> bool:
    return not measured_apart(one.run.spec.scenario, first.run.spec.scenario, has_same_samples=True)


def _spots(alike: Sequence[Candidate], costs: Sequence[float | None], *, of_speed: bool) -> list[Spot]:
    directions = ["lower", *(one.quality.scored.description.direction for one in alike[:1])]
    flags = non_dominated([(cost, one.quality.value) for one, cost in zip(alike, costs, strict=True)], directions)
    return [
        Spot(
            label=one.label if of_speed else one.run.name,
            x=cost,
            y=one.quality.value,
            low=one.quality.low,
            high=one.quality.high,
            is_front=flag,
        )
        for one, cost, flag in zip(alike, costs, flags, strict=True)
        if flag is not None and cost is not None and one.quality.value is not None
    ]


def _figure(name: str, words: str, axis: Axis, quality: Quality, spots: Sequence[Spot]) -> FigureSpec:
    direction = quality.scored.description.direction
    return front_figure(
        f"quality-and-{name}",
        f"{quality.label} against {words}",
        x=axis,
        y=Axis(title=f"{quality.label}, {direction} is better"),
        spots=spots,
        front=_FRONT,
        rest=_REST,
        note=(
            f"Further left takes less, further {'up' if direction == 'higher' else 'down'} is better; bars are 95 % "
            "intervals. What is beaten may still differ by chance alone: see the paired differences."
        ),
    )
