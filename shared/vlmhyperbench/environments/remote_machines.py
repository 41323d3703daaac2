"""Rented machines as environments: rented for one engine, its packages installed there, returned by `remote_end`.

<environments>/machines/<name>.json    the record of a machine, written before it is rented and removed once it is gone
<environments>/machines/<name>.lock    held shared while it is prepared and used; once it is free, it is returned
<environments>/machines/<name>.hosts   its host key
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from vlmhyperbench.domain.environments import RemoteSpec, VirtualenvSpec
from vlmhyperbench.environments import remote_end
from vlmhyperbench.environments.base import CONTAINER_VARIABLES, Prepared, Tell, tell_nobody
from vlmhyperbench.environments.installer import Step, run_step
from vlmhyperbench.environments.interpreters import OWN_INTERPRETER, Interpreter
from vlmhyperbench.environments.local_venv import prepared_virtualenv
from vlmhyperbench.environments.remote_end import SKY_PROGRAM, SKY_VARIABLES, skypilot_spec
from vlmhyperbench.environments.resolving import packages_of, resolved
from vlmhyperbench.environments.ssh import FOLDER, Machine, programs
from vlmhyperbench.environments.standing_in import ABOUT, INIT, Order
from vlmhyperbench.environments.store import EnvironmentStore
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.errors import InvalidInput, Unavailable
from vlmhyperbench.files import write_whole

RUN = "vlmhyperbench.environments.remote_run"
_UV = ".local/bin/uv"
"""Where SkyPilot puts uv on its machines."""
_FINAL = frozenset({"no_credentials", "no_machine", "too_expensive"})
"""What another try cannot change."""
_SSH_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "SSH_AUTH_SOCK")


@asynccontextmanager
async def prepared_remote(spec: RemoteSpec, workshop: Workshop, *, tell: Tell) -> AsyncIterator[Prepared]:
    """Rent a machine, install the engine's packages on it, and hold it while the block runs.

    Raises:
        InvalidInput: the requirements cannot be resolved or installed, there are no credentials of the provider, or
            nobody offers such a machine at this price.
        Unavailable: ssh or rsync is missing, no such machine is free, it does not come up, or the network fails.
    """
    programs()
    whole, folder, logs = await plan_remote(spec, workshop, tell=tell), workshop.store.folder, workshop.logs
    machines, name = EnvironmentStore(folder / "machines"), f"vlmhb-{secrets.token_hex(4)}"
    record = machines.folder / f"{name}.json"
    async with AsyncExitStack() as held:
        lock_fd = await held.enter_async_context(machines.held(name, is_shared=True))
        written: dict[str, Any] = {"name": name, "cloud": spec.cloud, "logs": str(logs), "home": str(Path.home())}
        write_whole(record, json.dumps(written).encode(), is_durable=True)
        await asyncio.to_thread(remote_end.start, record)
        await tell("renting", None)
        machine = await _rent(spec, name, workshop)
        write_whole(record, json.dumps({**written, "machine": asdict(machine)}).encode(), is_durable=True)
        await tell("installing", len(packages_of(whole)))
        machine, version, packages = await _install(spec, machine, whole, record, logs)
        write_whole(record, json.dumps({**written, "machine": asdict(machine), "packages": packages}).encode())
        yield Prepared(
            key=remote_key(spec, whole),
            python=python_of(machine),
            python_version=version,
            packages=packages,
            lock_fd=lock_fd,
            inherited=CONTAINER_VARIABLES,
            is_remote=True,
            launcher=Order(spec=spec.model_dump(mode="json"), marker=str(record)).argv(RUN),
        )


async def plan_remote(spec: RemoteSpec, workshop: Workshop, *, tell: Tell) -> str:
    """Do what needs no machine: build SkyPilot's environment, and resolve the engine's packages, which are returned.

    Raises:
        InvalidInput: the requirements, or SkyPilot's, cannot be resolved or installed.
        Unavailable: uv is missing, the disk is full, or the package index does not answer.
    """
    venv = VirtualenvSpec(python=spec.python, requirements=spec.requirements, overrides=spec.overrides)
    there = Interpreter(path=OWN_INTERPRETER.path, version=spec.python, is_elsewhere=True)
    async with prepared_virtualenv(skypilot_spec(spec.cloud), workshop, tell=tell):
        lines, store = spec.requirements, workshop.store
        return await resolved(venv, lines, there, store, workshop.logs, own=(), tell=tell)


def remote_key(spec: RemoteSpec, whole: str) -> str:
    """Return the key of what runs on a rented machine."""
    about = ["remote", whole, spec.python, spec.cloud, spec.accelerators, spec.image]
    return sha256(json.dumps(about).encode()).hexdigest()[:16]


def python_of(machine: Machine) -> str:
    """Return the path of the engine's interpreter on the machine."""
    return f"{machine.home}/{FOLDER}/environment/bin/python"


async def _rent(spec: RemoteSpec, name: str, workshop: Workshop) -> Machine:
    place = f"{spec.cloud}/{spec.region}" if spec.region is not None else spec.cloud
    resources = {
        "infra": place,
        "accelerators": spec.accelerators,
        "disk_size": spec.disk_gib,
        "use_spot": spec.is_spot,
        "max_hourly_cost": spec.max_hourly_cost_usd,
        "autostop": {"idle_minutes": spec.max_idle_minutes, "down": True, "wait_for": "jobs_and_ssh"},
        **({"image_id": spec.image} if spec.image is not None else {}),
    }
    order = {
        "do": "rent",
        "name": name,
        "cloud": spec.cloud,
        "region": spec.region,
        "accelerators": spec.accelerators,
        "resources": resources,
    }
    log = workshop.logs / f"remote-{name}.log"
    what = f"No machine with {spec.accelerators} of {place} came up"
    async with prepared_virtualenv(skypilot_spec(spec.cloud), workshop, tell=tell_nobody) as sky:
        step = Step(
            argv=[sky.python, "-I", str(SKY_PROGRAM), json.dumps(order)],
            log=log,
            cwd=workshop.store.folder,
            what=what,
            code="machine_failed",
            cure=f"Read {log}.",
            program="provider",
            inherited=SKY_VARIABLES,
            timeout_s=spec.max_start_minutes * 60,
        )
        try:
            output = await run_step(step)
        except InvalidInput as error:  # a crash of SkyPilot, whose cause may pass
            raise Unavailable(error.message, cure=error.cure, code=error.code) from error
        except Unavailable as error:
            if error.code != "environment_timeout":
                raise
            cure = f"Read {log}, or raise max_start_minutes."
            message = f"{what} within {spec.max_start_minutes:g} minutes."
            raise Unavailable(message, cure=cure, code="machine_timeout") from error
    answer: Mapping[str, Any] = json.loads(output.rstrip().rpartition("\n")[2])
    if "error" in answer:
        kind = InvalidInput if answer["code"] in _FINAL else Unavailable
        raise kind(answer["error"], cure=answer["cure"], code=answer["code"])
    return Machine(name=name, **answer)


async def _install(
    spec: RemoteSpec, machine: Machine, whole: str, record: Path, logs: Path
) -> tuple[Machine, str, dict[str, str]]:
    """Install the resolved packages; return the machine with its home folder, its Python and what is installed."""
    hosts, log = record.with_suffix(".hosts"), logs / f"remote-{machine.name}.log"

    async def run(argv: list[str]) -> str:
        what = f"The packages of the engine cannot be installed on the machine {machine.name}"
        cure = f"Read {log}, or correct requirements and overrides in the entry."
        code = "environment_failed"
        step = Step(argv=argv, log=log, cwd=record.parent, what=what, code=code, cure=cure, inherited=_SSH_VARIABLES)
        return await run_step(step)

    async def there(*command: str) -> str:
        return await run(machine.ssh(hosts, command))

    machine = replace(machine, home=(await there("pwd")).strip())
    packages = record.with_suffix(".txt")
    packages.write_text(whole, encoding="utf-8")
    try:
        await run(machine.rsync(hosts, [str(packages), str(INIT)], machine.root))
    finally:
        packages.unlink()
    uv, python = f"{machine.home}/{_UV}", python_of(machine)
    await there(uv, "venv", "--no-project", "--python", spec.python, f"{machine.home}/{FOLDER}/environment")
    flags = ("--no-deps", "--require-hashes", "--compile-bytecode", "-r", machine.sent(str(packages)))
    await there(uv, "pip", "install", "--no-progress", "--python", python, *flags)
    version, installed = json.loads((await there(python, "-I", "-c", ABOUT)).rpartition("\n")[2])
    return machine, version, dict(sorted(installed.items()))
