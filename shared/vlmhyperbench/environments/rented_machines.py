"""Rented machines as environments: rented for one engine, its packages installed there, returned by `rented_end`."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from vlmhyperbench.domain.digests import short_key
from vlmhyperbench.domain.environments import RentedSpec, VirtualenvSpec
from vlmhyperbench.environments import rented_end
from vlmhyperbench.environments.base import CONTAINER_VARIABLES, Prepared, Tell
from vlmhyperbench.environments.installer import is_unreachable
from vlmhyperbench.environments.interpreters import OWN_INTERPRETER, Interpreter
from vlmhyperbench.environments.local_venv import prepared_virtualenv
from vlmhyperbench.environments.programs import Step, last_lines, run_step
from vlmhyperbench.environments.rented_downloads import FETCH
from vlmhyperbench.environments.rented_records import RentedRecord, held, record_file
from vlmhyperbench.environments.resolving import packages_of, resolved
from vlmhyperbench.environments.skypilot import log_of, rent, skypilot_spec
from vlmhyperbench.environments.ssh import FOLDER, SSH_VARIABLES, Machine, lost_connection, programs
from vlmhyperbench.environments.standing_in import ABOUT, INIT, Order
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.errors import Unavailable

RUN = "vlmhyperbench.environments.rented_run"
_UV = ".local/bin/uv"
"""Where SkyPilot puts uv on its machines."""


@asynccontextmanager
async def prepared_rented(spec: RentedSpec, workshop: Workshop, *, tell: Tell) -> AsyncIterator[Prepared]:
    """Rent a machine, install the engine's packages on it, and hold it while the block runs.

    Raises:
        InvalidInput: the requirements cannot be resolved or installed, there are no credentials of the provider, or
            nobody offers such a machine at this price.
        Unavailable: ssh or rsync is missing, no such machine is free, it does not come up, or the network fails.
    """
    programs()
    whole, folder, name = await plan_rented(spec, workshop, tell=tell), workshop.store.folder, _new_name()
    async with AsyncExitStack() as used:
        lock_fd = await used.enter_async_context(held(folder, name))
        record = RentedRecord(
            file=record_file(folder, name),
            cloud=spec.cloud,
            logs=workshop.logs.absolute(),
            secrets_dir=workshop.secrets_dir.absolute(),
            home=Path.home(),
        )
        record.write()
        await asyncio.to_thread(rented_end.start, record.file)
        await tell("renting", None)
        machine = await rent(spec, name, workshop)
        record = replace(record, machine=machine)
        record.write()
        await tell("installing", len(packages_of(whole)))
        machine, version, packages = await _install(spec, machine, whole, record)
        replace(record, machine=machine, packages=packages).write()
        yield Prepared(
            key=rented_key(spec, whole),
            python=machine.python,
            python_version=version,
            packages=packages,
            lock_fd=lock_fd,
            inherited=CONTAINER_VARIABLES,
            rented=record.file,
            launcher=Order(spec=spec.model_dump(mode="json"), marker=str(record.file)).argv(RUN),
        )


async def plan_rented(spec: RentedSpec, workshop: Workshop, *, tell: Tell) -> str:
    """Do what needs no machine: build SkyPilot's environment, and resolve the engine's packages, which are returned.

    Raises:
        InvalidInput: the requirements, or SkyPilot's, cannot be resolved or installed.
        Unavailable: uv is missing, the disk is full, or the package index does not answer.
    """
    venv = VirtualenvSpec(python=spec.python, requirements=spec.requirements, overrides=spec.overrides)
    there = Interpreter(path=OWN_INTERPRETER.path, version=spec.python, is_elsewhere=True)
    async with prepared_virtualenv(skypilot_spec(spec.cloud), workshop, tell=tell):
        return await resolved(venv, spec.requirements, there, workshop, own=(), tell=tell)


def rented_key(spec: RentedSpec, whole: str) -> str:
    """Return the key of what runs on a rented machine."""
    return short_key(["remote", whole, spec.python, spec.cloud, spec.accelerators, spec.image])


def _new_name() -> str:
    return f"vlmhb-{secrets.token_hex(4)}"


async def _install(
    spec: RentedSpec, machine: Machine, whole: str, record: RentedRecord
) -> tuple[Machine, str, dict[str, str]]:
    """Install the resolved packages; return the machine with its home folder, its Python and what is installed."""
    log = log_of(machine.name, record.logs)
    call = partial(
        Step,
        log=log,
        cwd=record.file.parent,
        what=f"The packages of the engine cannot be installed on the machine {machine.name}",
        code="environment_failed",
        cure=f"Read {log}, or correct requirements and overrides in the entry.",
        program="machine",
    )

    async def run(argv: list[str]) -> str:
        return await run_step(call(argv=argv), inherited=SSH_VARIABLES, explain=_why_not_installed)

    async def there(*command: str) -> str:
        return await run(machine.ssh(record.hosts, command))

    machine = replace(machine, home=(await there("pwd")).strip())
    packages = record.file.with_suffix(".txt")
    packages.write_text(whole, encoding="utf-8")
    try:
        await run(machine.rsync(record.hosts, [str(packages), str(INIT), str(FETCH)], machine.root))
    finally:
        packages.unlink()
    uv, python = f"{machine.home}/{_UV}", machine.python
    await there(uv, "venv", "--no-project", "--python", spec.python, f"{machine.home}/{FOLDER}/environment")
    flags = ("--no-deps", "--require-hashes", "--compile-bytecode", "-r", machine.sent(str(packages)))
    await there(uv, "pip", "install", "--no-progress", "--python", python, *flags)
    version, installed = json.loads((await there(python, "-I", "-c", ABOUT)).rpartition("\n")[2])
    return machine, version, dict(sorted(installed.items()))


def _why_not_installed(step: Step, status: int, output: Sequence[str]) -> Unavailable | None:
    """Return the error of a connection that was lost, or of an index that the machine does not reach."""
    lost = lost_connection(step, status, output)
    if lost is not None or not is_unreachable(output):
        return lost
    message = f"{step.what}, because it reaches no index of packages. The end of its log:\n{last_lines(output)}\n"
    return Unavailable(message, cure="Try again, or choose another region.", code="index_unreachable")
