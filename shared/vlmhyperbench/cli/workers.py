"""`workers`: list, drain, resume and release workers and devices; plan an experiment; tokens to join."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter
from pydantic import JsonValue

from vlmhyperbench.cli import exits, join_tokens
from vlmhyperbench.cli.groups import SELECTION, STACK
from vlmhyperbench.cli.output import emit, say, table
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.plans import print_paper
from vlmhyperbench.client import Client
from vlmhyperbench.domain.needs import in_gib
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.wire.placement import Drain, Scope
from vlmhyperbench.wire.workers import Device, Quarantine, Worker

app = App(name="workers", help="List, drain, resume and release workers; plan an experiment; make tokens to join.")
app.command(join_tokens.app)


@app.command(name="list")
def list_(*, output: OutputFlags = TEXT) -> int:
    """List the workers with their devices: what is reserved of them, and what is drained, by whom and why.

    Args:
        output: How the output is printed.
    """
    with Client() as client:
        page = client.workers()
    if output.json:
        emit("workers", page.items)
        return exits.OK
    rows = [row for worker in page.items for row in _rows(worker)]
    table(["worker", "kind", "host", "device", "memory", "reserved", "jobs", "state"], rows, right=["memory", "jobs"])
    return exits.OK


@app.command
def drain(
    name: str,
    /,
    *,
    reason: Annotated[str, Parameter(group=STACK)],
    device: Annotated[bool, Parameter(group=STACK, negative=())] = False,
    machine: Annotated[bool, Parameter(group=STACK, negative=())] = False,
    output: OutputFlags = TEXT,
) -> int:
    """Drain a worker, a device or a machine: it finishes what runs and gets nothing new, also after a restart.

    Args:
        name: Name, queue or id of a worker; with --device the UUID of a device, with --machine the name of a host.
        reason: Why; it is stored with your name and shown to those who wait.
        device: NAME is a device.
        machine: NAME is a machine, with all of its workers.
        output: How the output is printed.
    """
    with Client() as client:
        drained = client.drain(_scope(device=device, machine=machine), name, reason=reason)
    return _print(drained, "is drained: it finishes what runs and gets nothing new", output)


@app.command
def resume(
    name: str,
    /,
    *,
    device: Annotated[bool, Parameter(group=STACK, negative=())] = False,
    machine: Annotated[bool, Parameter(group=STACK, negative=())] = False,
    output: OutputFlags = TEXT,
) -> int:
    """Resume a drained worker, device or machine, so that it gets jobs again.

    Args:
        name: Name, queue or id of a worker; with --device the UUID of a device, with --machine the name of a host.
        device: NAME is a device.
        machine: NAME is a machine.
        output: How the output is printed.
    """
    with Client() as client:
        resumed = client.undrain(_scope(device=device, machine=machine), name)
    return _print(resumed, "gets jobs again", output)


@app.command
def quarantines(
    *, all_: Annotated[bool, Parameter(name="--all", group=SELECTION, negative=())] = False, output: OutputFlags = TEXT
) -> int:
    """List the devices in quarantine: the fault, which worker found it and when.

    Args:
        all_: Also those that were released, and by whom.
        output: How the output is printed.
    """
    with Client() as client:
        page = client.quarantines(include_released=all_)
    if output.json:
        emit("quarantines", page.items)
        return exits.OK
    rows = [
        (item.device, item.device_name, item.worker, item.host, f"{item.since:%Y-%m-%d %H:%M}", item.reason, _end(item))
        for item in page.items
    ]
    table(["device", "name", "worker", "host", "since", "reason", "released"], rows)
    return exits.OK


@app.command
def release_device(uuid: str, /, *, output: OutputFlags = TEXT) -> int:
    """Let a device that is in quarantine get jobs again, once it has been repaired, reset or found healthy.

    A worker quarantines a GPU that vanishes or reports an error of the hardware; `vlmhyperbench status` shows why.

    Args:
        uuid: UUID of the device.
        output: How the output is printed.
    """
    with Client() as client:
        released = client.release_device(uuid)
    if output.json:
        emit("device", released)
    else:
        say(f"{uuid} gets jobs again." if released.was_broken else f"{uuid} was not in quarantine.")
    return exits.OK


@app.command
def plan(
    experiment: str,
    /,
    *,
    worker: Annotated[tuple[str, ...], Parameter(group=SELECTION)] = (),
    output: OutputFlags = TEXT,
) -> int:
    """Say on paper where the runs of an experiment would be asked, and how long that takes; nothing is started.

    The scheduler's own rules place them, on idle workers. Times are those of earlier runs of the same model and task;
    where there are none, they are unknown.

    Args:
        experiment: Registered experiment.
        worker: A worker that does not exist, by the memory of its devices in GiB: 24, or 24,24 for one with two, and
            by their name if models were measured on such ones: 24:NAME. May be given several times. Without it, the
            live workers.
        output: How the output is printed.
    """
    declared = [_declared(no, text) for no, text in enumerate(worker, start=1)]
    with Client() as client:
        paper = client.plan(experiment, workers=declared)
    if output.json:
        emit("plan", paper)
    else:
        print_paper(paper, output)
    return exits.OK


def _declared(no: int, text: str) -> dict[str, JsonValue]:
    given, _, name = text.partition(":")
    try:
        sizes = [float(part) for part in given.split(",")]
    except ValueError as error:
        cure = "Write gigabytes separated by commas, as in --worker 24 or --worker 24,24, and the name behind a colon."
        raise InvalidInput(f"--worker {text!r} is no list of sizes.", cure=cure, code="usage") from error
    return {"name": f"worker-{no}", "devices_gib": list(sizes), "device_name": name or None}


def _scope(*, device: bool, machine: bool) -> Scope:
    """Return what the name is of.

    Raises:
        InvalidInput: both flags are given.
    """
    if device and machine:
        raise InvalidInput("NAME cannot be a device and a machine.", cure="Give one of the flags.", code="usage")
    return "device" if device else "machine" if machine else "worker"


def _rows(worker: Worker) -> list[tuple[object, ...]]:
    state = f"drained {worker.drained}" if worker.drained else "stale" if worker.is_stale else worker.state.lower()
    start = (worker.name, worker.kind, worker.host)
    if not worker.devices:
        return [(*start, "", "", "", "", state)]
    return [
        (
            *start,
            f"{device.no} {device.name}{' (declared)' if worker.is_declared else ''} {device.uuid}",
            in_gib(device.memory_bytes),
            in_gib(device.reserved_bytes) if device.jobs else "",
            device.jobs,
            _state_of(device, state),
        )
        for device in worker.devices
    ]


def _end(record: Quarantine) -> str:
    return f"{record.released_at:%Y-%m-%d %H:%M} by {record.released_by}" if record.released_at else ""


def _state_of(device: Device, state: str) -> str:
    if device.state == "BROKEN":
        return "quarantined"
    return f"drained {device.drained}" if device.drained else state


def _print(drained: Drain, what: str, output: OutputFlags) -> int:
    if output.json:
        emit("drain", drained)
    else:
        say(f"The {drained.scope} {drained.name} {what}.")
    return exits.OK
