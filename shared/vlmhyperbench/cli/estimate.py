"""`models estimate`: the memory that a model needs on a backend, by the adapter's estimate, and what is free here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.bringing import bring_model, listed_weights
from vlmhyperbench.cli.choices import read_param
from vlmhyperbench.cli.fetching import open_cache
from vlmhyperbench.cli.groups import TARGET
from vlmhyperbench.cli.output import emit, say, table
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.remembered import remembered
from vlmhyperbench.cli.resolving import load_request, resolve_model, stated_estimate
from vlmhyperbench.cli.run_flags import Repeatable
from vlmhyperbench.cli.shortages import gib
from vlmhyperbench.data.estimating import whole_estimate
from vlmhyperbench.data.usable_memory import usable_memory
from vlmhyperbench.domain.fallbacks import LoadBytes
from vlmhyperbench.domain.needs import MEASURED_MARGIN
from vlmhyperbench.errors import NotFound, PluginFailure, Unavailable
from vlmhyperbench.settings import Settings
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.fitting import shortage
from vlmhyperbench_sdk.free_memory import FreeMemory
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import Backend, DryRunBackend, MemoryEstimate

Tier = Literal["auto", "static", "dry-run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedModel:
    """`data` of `vlmhyperbench models estimate --json`."""

    model: str
    backend: str
    device_bytes: int
    """Memory that the model needs on accelerators; on a machine without one it is the machine's own."""
    host_bytes: int
    free_device_bytes: int | None
    free_host_bytes: int | None
    """What a load may use now: what is free, less 1 GiB of each accelerator, and 1 GiB or 5 % of the machine's."""
    devices: int | None
    source: str
    """How the adapter knows: `static` is computed from the files and parameters."""
    knobs: tuple[str, ...]
    """Parameters of the engine that change the need."""
    shortage: str | None
    """What does not fit; None if it may."""
    margin_device_bytes: int
    margin_host_bytes: int
    """With the margin: 10 % and 256 MiB more."""
    parts: Mapping[str, int] = field(default_factory=dict)
    """What the bytes are of: weights, KV cache, vision tower, process; empty where the adapter does not say."""
    measured: Mapping[str, int] = field(default_factory=dict)
    """Device → most bytes that the loaded model has used, as the stack remembers; empty where none answers."""
    measured_margin: float = MEASURED_MARGIN
    """Factor of a measured value: the next run may have a longer prompt."""


def estimate(
    model: str,
    /,
    *,
    backend: Annotated[str | None, Parameter(group=TARGET)] = None,
    mmproj: Annotated[str | None, Parameter(group=TARGET)] = None,
    engine_param: Annotated[Repeatable, Parameter(group=TARGET)] = (),
    tier: Annotated[Tier, Parameter(group=TARGET)] = "auto",
    output: OutputFlags = TEXT,
) -> int:
    """Estimate the memory that a model needs, and compare it with what a load may use here. Nothing is loaded.

    Args:
        model: Registered model, or gguf:FILE, folder:FOLDER or hf:ORG/NAME, as in `run`.
        backend: Backend that runs the model; by default the model's first one.
        mmproj: For a GGUF file: file of the image projector that belongs to it.
        engine_param: Parameter of the engine, NAME=VALUE; may be given several times.
        tier: static computes from the headers, dry-run asks the engine, auto asks it where it is installed here.
        output: How the output is printed.
    """
    if (stated := stated_estimate(model)) is not None:
        return _show_stated(model, stated, "the number of parameters that the entry states", output)
    if (listed := listed_weights(model, mmproj, backend)) is not None:
        return _show_stated(model, listed, "the files that its source lists", output)
    added = bring_model(model, mmproj=mmproj, backend=backend, output=output)
    name = added.name if added is not None else model
    adapters = Settings.load().engine_environment.adapters
    target = resolve_model(name, backend, dict(map(read_param, engine_param)), adapters=adapters)
    if target.brings_its_adapter:
        message = f"The adapter {target.backend_class!r} is in an environment of its own, where nothing is estimated."
        cure = "Load the model, and look at the peak memory of a run."
        raise NotFound(message, cure=cure, code="no_estimate")
    estimated, free = _estimate(load_request(target, open_cache()), tier), usable_memory()
    reserved = LoadBytes(device=estimated.device_bytes, host=estimated.host_bytes).with_margin
    result = EstimatedModel(
        model=target.model,
        backend=target.backend,
        device_bytes=estimated.device_bytes,
        host_bytes=estimated.host_bytes,
        free_device_bytes=free.device_bytes,
        free_host_bytes=free.host_bytes,
        devices=free.devices,
        source=estimated.source,
        knobs=estimated.knobs,
        shortage=shortage(estimated, free),
        margin_device_bytes=reserved.device,
        margin_host_bytes=reserved.host,
        parts=estimated.parts,
        measured=remembered(name) if not engine_param else {},
    )
    if output.json:
        emit("estimate", result)
        return exits.OK
    table(
        ["memory", "needed", "usable"],
        [
            ("accelerators", gib(result.device_bytes), _accelerators(free)),
            ("machine", gib(result.host_bytes), gib(result.free_host_bytes)),
        ],
        right=["needed", "usable"],
    )
    for part, size_bytes in result.parts.items():
        say(f"{part}: {gib(size_bytes)}")
    say(f"with the margin of 10 % and 256 MiB: {gib(reserved.device)} and {gib(reserved.host)}")
    say(f"{result.model} on {result.backend}, {result.source} estimate: {result.shortage or 'it may fit'}")
    for device, peak in result.measured.items():
        with_margin = gib(round(peak * result.measured_margin))
        say(f"measured on {device}: {gib(peak)}, with its margin of 5 %: {with_margin}; it replaces the estimate")
    if result.knobs:
        say(f"engine parameters that change it: {', '.join(result.knobs)}")
    return exits.OK


def _show_stated(model: str, weights_bytes: int, source: str, output: OutputFlags) -> int:
    """Show what is known of a model that is not on this machine: nothing is fetched for an estimate."""
    free = usable_memory()
    if output.json:
        known = {"model": model, "source": source, "weights_bytes": weights_bytes}
        emit("estimate", {**known, "free_device_bytes": free.device_bytes, "free_host_bytes": free.host_bytes})
        return exits.OK
    say(f"weights: about {gib(weights_bytes)}, by {source}")
    say(f"usable: accelerators {_accelerators(free)}, machine {gib(free.host_bytes)}")
    say(f"`vlmhyperbench models fetch {model}` fetches it; then the adapter estimates KV cache and vision tower too")
    return exits.OK


def _estimate(load: LoadRequest, tier: Tier) -> MemoryEstimate:
    """Ask the adapter, or the engine's own dry run.

    Raises:
        NotFound: the adapter cannot estimate this model, or its engine has no dry run.
        PluginFailure: the adapter is no backend.
        Unavailable: the dry run fails, and nothing else was allowed.
    """
    adapter = discovery.load("backends", load.backend_class)()
    if not isinstance(adapter, Backend):
        raise PluginFailure(f"The adapter {load.backend_class!r} is not a backend.")
    if tier != "static" and isinstance(adapter, DryRunBackend):
        try:
            return adapter.dry_run(load, python=sys.executable)
        except Unavailable:
            if tier == "dry-run":
                raise
    elif tier == "dry-run":
        raise NotFound(f"The engine of {load.backend_class!r} has no dry run.", cure="Leave --tier out.")
    estimated = whole_estimate(adapter, load)
    if estimated is None:
        cure = "Load it, and look at the peak memory of a run."
        raise NotFound(f"The adapter {load.backend_class!r} has no estimate for {load.model}.", cure=cure)
    return estimated


def _accelerators(free: FreeMemory) -> str:
    return "none here" if free.devices == 0 else gib(free.device_bytes)
