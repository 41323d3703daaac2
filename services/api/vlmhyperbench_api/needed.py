"""What a run needs before it can start: memory of devices, environments, and an address that may be asked."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import replace

from vlmhyperbench.domain.asking import targets_of
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.environments import ApptainerSpec, DockerSpec, EnvironmentSpec, VirtualenvSpec
from vlmhyperbench.domain.needs import UNKNOWN
from vlmhyperbench.domain.run_plan import DeviceFit, fit_of, needs_of_run
from vlmhyperbench.domain.specs import EndpointTarget, ModelTarget, RunSpec, Target
from vlmhyperbench.environments.listing import Wanted, look_up
from vlmhyperbench.environments.metric_hosts import OWN
from vlmhyperbench.environments.own_wheels import GATEWAY
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.errors import InvalidInput, Unavailable
from vlmhyperbench.settings import Settings
from vlmhyperbench.wire.plans import DeviceVerdict, PlannedEnvironment, PlannedMemory
from vlmhyperbench_api.paper import Known, Papers
from vlmhyperbench_sdk.net import UrlPolicy, check_address, parse_url

MAX_DEVICES = 32
_FITS = ("fits", "fits_later", "takes_all", "too_small", "unavailable")
"""The order in which devices are shown."""


def memory_of(spec: RunSpec, known: Known, papers: Papers) -> PlannedMemory:
    """Return the verdict on each device of the live inference workers, for each target that runs on them."""
    targets = {digest_of(target): target for target in targets_of([spec])}
    fits = fits_of(spec, known)
    fits.sort(key=lambda found: (_FITS.index(found[1].fit), found[1].worker.name, found[1].device.no))
    return PlannedMemory(
        devices=[_verdict(targets[digest], fit) for digest, fit in fits[:MAX_DEVICES]],
        total=len(fits),
        refused=next((reason for _, reason in papers.expected.refused), None),
        note=_memory_note(spec, known, has_needs=any(needs_of_run(spec))),
    )


def fits_of(spec: RunSpec, known: Known) -> list[tuple[str, DeviceFit]]:
    """Return how each target that runs on workers fits each device of the live ones, by its digest."""
    return [
        (digest, fit_of(replace(need, memory=known.memory.get(digest, UNKNOWN)), worker, device))
        for need in needs_of_run(spec)
        for digest in [need.target_digest or ""]
        for worker in known.workers
        for device in worker.devices
    ]


def _memory_note(spec: RunSpec, known: Known, *, has_needs: bool) -> str:
    if not has_needs:
        where = "a rented machine" if isinstance(spec.target, ModelTarget) else "elsewhere"
        return f"its engine runs on {where}, and needs no memory of the workers"
    if not known.workers:
        return "no inference worker is live"
    return "what its adapter estimates, or what earlier runs have measured"


def _verdict(target: Target, fit: DeviceFit) -> DeviceVerdict:
    device = fit.device
    return DeviceVerdict(
        target=target.served_name,
        worker=fit.worker.name,
        host=fit.worker.host,
        device=device.no,
        device_name=device.name,
        memory_bytes=device.memory_bytes,
        free_bytes=max(0, device.memory_bytes - device.reserved_bytes),
        need_bytes=fit.need_bytes,
        basis=fit.basis,
        fit=fit.fit,
    )


async def environments_of(spec: RunSpec, settings: Settings) -> list[PlannedEnvironment]:
    """Return the environments that a run needs, as they are on this machine."""
    workshop = Workshop.of(settings)
    return [await _environment(wanted, workshop) for wanted in _wanted(spec)]


def _wanted(spec: RunSpec) -> Iterator[Wanted]:
    for target in targets_of([spec]):
        if isinstance(target, ModelTarget):
            if target.adapter_environment is not None:
                yield Wanted(entry=f"the adapter of {target.model}", spec=target.adapter_environment, own=GATEWAY)
            if target.environment is not None:
                yield Wanted(entry=f"the engine of {target.model}", spec=target.environment)
    for name, environment in spec.apart.items():
        plugin = name if name.startswith(("dataset ", "prompt ")) else f"metric {name}"
        yield Wanted(entry=f"the {plugin}", spec=environment, own=OWN)


async def _environment(wanted: Wanted, workshop: Workshop) -> PlannedEnvironment:
    pins = _pins(wanted.spec)
    try:
        listed = await look_up(wanted, workshop)
    except Unavailable:  # only the worker that builds it needs the installer
        return PlannedEnvironment(of=wanted.entry, kind=wanted.spec.kind, state="unknown", installs=pins)
    return PlannedEnvironment(
        of=wanted.entry,
        kind=listed.kind,
        state=listed.state,
        installs=pins,
        packages=listed.packages,
        size_bytes=listed.size_bytes,
    )


def _pins(spec: EnvironmentSpec) -> list[str]:
    match spec:
        case VirtualenvSpec():
            return [*spec.requirements, *spec.conda, *(package.origin for package in spec.packages)]
        case DockerSpec():
            return [spec.image]
        case ApptainerSpec():
            return [spec.file or "an image by its definition"]
        case _:
            return [f"a machine of {spec.cloud} with {spec.accelerators}", *spec.requirements]


def address_warnings(spec: RunSpec, policy: UrlPolicy) -> list[str]:
    """Return a warning for each endpoint whose address this machine's policy refuses; names are not resolved."""
    endpoints = [target.endpoint for target in targets_of([spec]) if isinstance(target, EndpointTarget)]
    return [warning for endpoint in endpoints for warning in _refusal(endpoint, policy)]


def _refusal(endpoint: str, policy: UrlPolicy) -> Iterator[str]:
    url = parse_url(endpoint)
    try:
        address = ipaddress.ip_address("127.0.0.1" if url.host == "localhost" else url.host)
    except ValueError:  # a name, which only the worker resolves
        return
    try:
        check_address(address, url, policy)
    except InvalidInput as error:
        yield f"{error.message} {error.cure}"
