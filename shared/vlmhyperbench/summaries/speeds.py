"""Speeds of a run, and whether they are a valid measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from vlmhyperbench.analysis.costs import Cost
from vlmhyperbench.analysis.results import Distribution, Gate, Goodput, LimitVerdict, Percentile

State = Literal["valid", "invalid", "not known"]
SpeedsState = State | Literal["interrupted", "retuned", "partial"]
MemoryOf = Literal["accelerators", "engine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """Validity gates of a run's speeds. A gate whose value was not recorded is unknown and voids nothing."""

    state: State
    gates: tuple[Gate, ...]
    disturbers: tuple[str, ...] = ()
    """Descriptions of other inferences on the same machine at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """Gaps between tokens in milliseconds, one per token."""

    n: int
    p50: float
    p90: float
    p99: float
    max: float
    within: float
    """Relative error of the percentiles, since gaps are counted in buckets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Peaks and means over all claims that measured; None where a machine lacks the device or it was not sampled."""

    engine_memory_bytes: int | None
    """Peak resident memory of the engine's processes."""
    accelerator_memory_bytes: int | None
    """Peak memory use of all accelerators of the machine, by any process."""
    accelerator_share: float | None
    """Mean utilisation of the accelerators."""
    cpu_share: float | None
    """Mean utilisation of all cores, including the load generator's and the worker's."""
    power_w: float | None
    """Mean power: energy over the window."""
    energy_j: float | None
    """Energy of all accelerators; None where two claims measured on one machine at the same time."""
    energy_j_per_answer: float | None
    energy_j_per_1k_tokens: float | None
    """Energy per 1,000 output tokens."""
    coverage: float | None
    """Smallest share of the expected samples that a claim has; 0 where a claim has no samples."""
    accelerator_before_bytes: int | None = None
    """Memory use of the accelerators before the engine was loaded, largest of the claims."""
    accelerator_delta_bytes: int | None = None
    """Largest rise of a claim from before the load to its peak."""
    request_delta_bytes: int | None = None
    """Largest rise of the accelerators' memory during one request."""

    @property
    def peak_memory_bytes(self) -> int | None:
        """Peak memory of the accelerators where there are any, else the engine's resident memory."""
        return self.engine_memory_bytes if self.accelerator_memory_bytes is None else self.accelerator_memory_bytes

    @property
    def peak_memory_of(self) -> MemoryOf | None:
        """Whether the peak is that of the accelerators or of the engine; None where it is unknown."""
        if self.accelerator_memory_bytes is not None:
            return "accelerators"
        return None if self.engine_memory_bytes is None else "engine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Harness:
    """Cost of measuring: resources of the load generators of a run's claims; None where not recorded."""

    recorded: int
    """Number of claims that recorded the cost."""
    claims: int
    cpu_s: float
    """Processor time of parent and measuring processes, including start-up and warm-up."""
    measuring_cpu_s: float | None
    """Part of `cpu_s` that the measuring processes used."""
    processes: int | None
    """Largest number of measuring processes of a claim."""
    peak_rss_bytes: int | None
    """Largest peak memory of a claim's parent and measuring processes together."""
    measuring_rss_bytes: int | None
    """Largest peak memory of a measuring process."""
    startup_s: float | None
    """Longest time of a claim until its first request could leave."""
    busy_share: float | None
    """Share of a core that the busiest measuring process used while it measured."""
    core_share: float | None
    """Processor time of all processes over the measured window."""
    cpu_s_per_100k_tokens: float | None
    cpu_s_per_1k_requests: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """Speed of a run's own requests; None where it was not measured."""

    times: Mapping[str, Distribution]
    """Name of a time → its distribution over answered requests, in milliseconds."""
    percentiles: Mapping[str, tuple[Percentile, ...]]
    """Name of a time → its p50, p90 and p99 with intervals, with failed requests as infinite."""
    gaps_ms: Gaps | None
    failed: int
    """Number of requests that were sent and not answered."""
    window_s: float | None
    """Time from the first request scheduled to the last stream's end, over all claims: see `spans.window_s`."""
    samples_per_s: float | None
    """Answers of one engine per second; answers without a token do not count."""
    output_tokens_per_s: float | None
    output_tokens: int | None
    goodput: Goodput | None
    """Goodput by all limits of the scenario's SLO together."""
    slo: tuple[LimitVerdict, ...]
    """Verdict on each limit of the SLO."""
    token_sources: tuple[str, ...]
    parts: int
    """Number of claims that measured: one per shard, and one more for each interruption."""
    measured_by: tuple[str, ...]
    """Ids of the claims that measured."""
    is_interrupted: bool
    """Whether another claim resumed a job, so that times before and after a restart are mixed."""
    is_partial: bool
    """Whether answers are reused, so that times cover only the others, or a stop rule ended the run early."""
    is_retuned: bool = False
    """Whether the requests in flight were changed while it was measured, so that concurrencies are mixed."""
    hosts: int
    """Number of machines that measured."""
    peak_memory_bytes: int | None
    peak_memory_of: MemoryOf | None
    resources: Resources | None
    """Resources of the engine; None for an endpoint, whose resources are not visible."""
    validity: Validity | None
    """None where nothing was sent and nothing was to be sent."""
    cost: Cost
    """Cost of the answers by the target's prices."""
    harness: Harness | None
    """Cost of measuring; None where no claim recorded it."""

    @property
    def is_invalid(self) -> bool:
        """Whether a gate fails, which voids every speed."""
        return self.validity is not None and self.validity.state == "invalid"

    @property
    def gates(self) -> tuple[Gate, ...]:
        """Gates of the speeds; empty without a measurement."""
        return self.validity.gates if self.validity is not None else ()

    @property
    def is_no_measure(self) -> bool:
        """Whether the speeds are not those of the whole data set, measured at one concurrency and without a break."""
        return self.is_interrupted or self.is_retuned or self.is_partial

    @property
    def state(self) -> SpeedsState | None:
        """State of the speeds in one word; None where nothing was timed."""
        if not self.times or self.validity is None:
            return None
        if self.is_invalid or not self.is_no_measure:
            return self.validity.state
        if self.is_interrupted:
            return "interrupted"
        return "retuned" if self.is_retuned else "partial"
