"""What the requests of a run say of its speed, and whether that is a measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from vlmhyperbench.analysis.costs import Cost
from vlmhyperbench.analysis.results import Distribution, Gate, Goodput, LimitVerdict, Percentile

State = Literal["valid", "invalid", "not known"]
SpeedsState = State | Literal["interrupted", "partial"]
MemoryOf = Literal["accelerators", "engine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """The gates of one run's speeds. A gate whose value nobody recorded is unknown, and voids nothing."""

    state: State
    gates: tuple[Gate, ...]
    disturbers: tuple[str, ...] = ()
    """Other inferences on the same machine at the same time, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """Gaps between tokens in milliseconds, one a token."""

    n: int
    p50: float
    p90: float
    p99: float
    max: float
    within: float
    """Relative error of each: they are counted in buckets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Peaks and means over all claims that measured; None where a machine has no such thing, or nobody sampled it."""

    engine_memory_bytes: int | None
    """Peak resident memory of the engine's processes."""
    accelerator_memory_bytes: int | None
    """Peak of what all accelerators of the machine held, whoever used them."""
    accelerator_share: float | None
    """Mean utilisation of the accelerators."""
    cpu_share: float | None
    """Mean utilisation of all cores, the load generator's and the worker's included."""
    power_w: float | None
    """Energy over the window."""
    energy_j: float | None
    """Of all accelerators; None where two claims measured on one machine at a time."""
    energy_j_per_answer: float | None
    energy_j_per_1k_tokens: float | None
    """Per 1,000 output tokens."""
    coverage: float | None
    """Share of the expected samples that exist, of the claim that has fewest; none of one that left no samples."""

    @property
    def peak_memory_bytes(self) -> int | None:
        """The accelerators' peak where there are any, else the engine's resident memory."""
        return self.engine_memory_bytes if self.accelerator_memory_bytes is None else self.accelerator_memory_bytes

    @property
    def peak_memory_of(self) -> MemoryOf | None:
        """Whose memory that is; None where nobody knows its peak."""
        if self.accelerator_memory_bytes is not None:
            return "accelerators"
        return None if self.engine_memory_bytes is None else "engine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Harness:
    """What the load generators of a run's claims took; None where it was not recorded."""

    recorded: int
    """Claims that recorded it."""
    claims: int
    cpu_s: float
    """Parent and measuring processes, start-up and warm-up included."""
    measuring_cpu_s: float | None
    """Of it, the measuring processes."""
    processes: int | None
    """Measuring processes of the claim that had most."""
    peak_rss_bytes: int | None
    """Parent and measuring processes, of the claim that had most."""
    measuring_rss_bytes: int | None
    """The largest measuring process."""
    startup_s: float | None
    """Until the first request could leave; the longest of all claims."""
    busy_share: float | None
    """Of a core, of the busiest measuring process while it measured."""
    core_share: float | None
    """Processor time of all of them over the measured window."""
    cpu_s_per_100k_tokens: float | None
    cpu_s_per_1k_requests: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """What a run's own requests say of speed; None where it was not measured."""

    times: Mapping[str, Distribution]
    """Of answered requests, in milliseconds."""
    percentiles: Mapping[str, tuple[Percentile, ...]]
    """Their p50, p90 and p99 with intervals, failed requests counting as infinite."""
    gaps_ms: Gaps | None
    failed: int
    """Requests that were asked and not answered."""
    window_s: float | None
    """From the first request scheduled to the last stream's end, over all claims: see `spans.window_s`."""
    samples_per_s: float | None
    """Answers of one engine; those without a token are none."""
    output_tokens_per_s: float | None
    output_tokens: int | None
    goodput: Goodput | None
    """By all limits of the scenario's SLO together."""
    slo: tuple[LimitVerdict, ...]
    """Its limits one by one."""
    token_sources: tuple[str, ...]
    parts: int
    """Claims that measured it: one per shard, and one more for each interruption."""
    measured_by: tuple[str, ...]
    """Ids of the claims whose requests these are."""
    is_interrupted: bool
    """A job was taken up again by another claim, so that times before and after a restart are mixed."""
    is_partial: bool
    """Some answers are kept of another run, so that times are only of the others; or a rule stopped it early."""
    hosts: int
    """Machines that measured it."""
    peak_memory_bytes: int | None
    peak_memory_of: MemoryOf | None
    resources: Resources | None
    """What the engine took; None of an endpoint's, which nobody here sees."""
    validity: Validity | None
    """None where nothing was asked, and nothing was to be."""
    cost: Cost
    """What the answers cost by the target's prices."""
    harness: Harness | None
    """What measuring took; None where no claim recorded it."""

    @property
    def is_invalid(self) -> bool:
        """Whether a gate is broken, which voids every speed."""
        return self.validity is not None and self.validity.state == "invalid"

    @property
    def gates(self) -> tuple[Gate, ...]:
        """What was judged of the speeds."""
        return self.validity.gates if self.validity is not None else ()

    @property
    def is_no_measure(self) -> bool:
        """Whether the run's speeds are not those of its whole data set, measured in one go."""
        return self.is_interrupted or self.is_partial

    @property
    def state(self) -> SpeedsState | None:
        """What is to be said of the speeds in a word; None where nothing was timed."""
        if not self.times or self.validity is None:
            return None
        if self.is_invalid or not self.is_no_measure:
            return self.validity.state
        return "interrupted" if self.is_interrupted else "partial"
