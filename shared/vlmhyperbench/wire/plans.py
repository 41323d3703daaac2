"""Response bodies of the dry run of a run: what it would be, ask, need and take."""

from __future__ import annotations

from typing import Literal

from vlmhyperbench.domain.run_plan import Fit, RequestKind
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.wire.base import Output
from vlmhyperbench.wire.manifests import ConfiguredValue


class PlannedSamples(Output):
    """How many samples the run would ask."""

    count: int | None
    basis: Literal["manifest", "limit", "unknown"]
    """`manifest`: its dataset was read before; `limit`: at most so many; `unknown`: never read, and no limit."""
    note: str


class PlannedRequests(Output):
    """How many requests of one kind it would send."""

    kind: RequestKind
    count: int | None
    """None if the number of samples is not known."""
    metric: str | None = None
    """Metric of the judge that sends them."""
    member: str | None = None
    """Model of a pipeline that is asked, as `stage/name`."""


class PlannedTime(Output):
    """How long its inference would take on idle workers, by the paces of earlier runs of its target and task."""

    expected_s: float | None
    shortest_s: float | None
    """If every answer takes as long as in the fastest job that was measured."""
    longest_s: float | None
    """If every answer takes as long as in the slowest one."""
    note: str
    """What the estimate is from, or why there is none."""


class DeviceVerdict(Output):
    """Whether the memory of a device suffices for a target of the run."""

    target: str
    """The run's model, or that of a judge."""
    worker: str
    host: str
    device: int
    device_name: str
    memory_bytes: int
    free_bytes: int
    need_bytes: int | None
    """None if nothing is known, so that the run takes the whole device."""
    basis: str
    """How the bytes are known: the adapter's estimate, or a measured peak."""
    fit: Fit


class PlannedMemory(Output):
    """The verdict on each device of the live inference workers, those that fit first."""

    devices: list[DeviceVerdict]
    """At most 32."""
    total: int
    """Number of verdicts, also of those that are left out."""
    refused: str | None = None
    """Why the run fits no worker that is known."""
    note: str


class PlannedEnvironment(Output):
    """An environment in which an engine, an adapter or a metric of the run would run."""

    of: str
    kind: str
    state: str
    """On the API's machine: `ready`, `in use`, `half-built`, `not built`, `no python`, `on demand` or `unknown`."""
    installs: list[str]
    """What it pins: requirements, packages, or the image."""
    packages: int | None = None
    """Number of packages, if it is built."""
    size_bytes: int | None = None


class PlannedCost(Output):
    """What its answers would cost by the target's prices."""

    prices: str | None
    total: float | None
    low: float | None
    high: float | None
    """Bounds of `total`, from the fastest and the slowest measured pace or the cheapest and dearest earlier run."""
    currency: str | None
    note: str


class RunPlan(Output):
    """What a run would be, ask, need and take. Nothing was created."""

    name: str
    spec: RunSpec
    spec_digest: str
    configuration: dict[str, ConfiguredValue]
    """Path in the spec, such as `decoding.temperature` → value and origin."""
    warnings: list[str]
    samples: PlannedSamples
    requests: list[PlannedRequests]
    time: PlannedTime
    memory: PlannedMemory
    environments: list[PlannedEnvironment]
    cost: PlannedCost
    command: str
    """The same as a command line."""
    command_file: bool = False
    """Whether the command reads the entry from the file `run.yaml`, because flags cannot say all of it."""
