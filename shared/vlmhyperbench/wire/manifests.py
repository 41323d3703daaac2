"""Response body of a run's manifest: what was really used, and where each value was written."""

from __future__ import annotations

from uuid import UUID

from pydantic import Field, JsonValue

from vlmhyperbench.wire.base import Output
from vlmhyperbench.wire.runs import Retune


class UsedEngine(Output):
    """A combination of engine, environment and machine that asked the run's requests, with its claims."""

    claims: list[UUID]
    engine: dict[str, JsonValue] | None
    """Name, version, command line, packages as installed, and warnings."""
    environment: dict[str, JsonValue] | None
    """Kind, key, interpreter and packages as resolved; None for an endpoint, or where not recorded."""
    certificate: dict[str, JsonValue] | None
    """The certificate of exactly this environment on this machine, if it had one."""
    fallbacks: list[dict[str, JsonValue]] = Field(default_factory=list)
    """What was given up so that the model fits, in order: `rung`, `before`, `after`, and whether it `is_lossy`."""
    execution: dict[str, JsonValue] | None = None
    """How the models of a pipeline were loaded: `asked`, `mode`, `why`, `need_bytes`, `have_bytes`, `dropped`."""
    machine: dict[str, JsonValue]
    """Processor, memory, accelerators, driver, CUDA, distribution and kernel."""
    host: str
    measured_at: str | None
    """`engine`, `gateway` or `tunnel`: which URL was measured."""


class UsedFile(Output):
    """A file of the model."""

    file: str
    location: str
    sha256: str
    is_confirmed: bool
    """Whether every engine that ran stated this hash for the file that it loaded."""


class UsedPackages(Output):
    """Packages of the processes that did jobs of these kinds."""

    jobs: list[str]
    packages: dict[str, JsonValue]


class ConfiguredValue(Output):
    """A value of the run's spec."""

    value: JsonValue
    origin: str
    """A line of a file, a flag, `submission`, `default`, `installed package`, or `not recorded`."""


class RunManifest(Output):
    """What a run really used, and where each value of its configuration was written."""

    schema_: str = Field(alias="schema")
    run_id: UUID
    name: str
    spec_digest: str
    sample_manifest: str | None
    example_manifest: str | None = None
    """SHA-256 of the examples that stood before every question; None without examples."""
    platform_version: str
    target: dict[str, JsonValue]
    weights: list[UsedFile]
    recipe: dict[str, JsonValue] | None = None
    """How the weights were made: source, inputs with hashes, steps, tools with versions; None without a recipe."""
    engines: list[UsedEngine]
    workers: list[UsedPackages]
    retunes: list[Retune] = Field(default_factory=list)
    """Changes of the requests in flight while it ran: its speeds are of mixed concurrency."""
    plugins: dict[str, JsonValue]
    configuration: dict[str, ConfiguredValue]
    """Path in the spec, such as `decoding.temperature` → value and origin."""
