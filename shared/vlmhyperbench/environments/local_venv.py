"""Virtual environments on this machine: resolved once, built once, used under a shared lock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.domain.packages import IndexPackage
from vlmhyperbench.environments import installer_commands
from vlmhyperbench.environments.base import Prepared, Tell, full_disk
from vlmhyperbench.environments.conda_lines import python_version
from vlmhyperbench.environments.installer import run_installer
from vlmhyperbench.environments.interpreters import Interpreter, builder_of, find_interpreter
from vlmhyperbench.environments.own_wheels import held_own_wheels, own_requirements
from vlmhyperbench.environments.programs import Step
from vlmhyperbench.environments.resolving import (
    CORRECT,
    environment_key,
    names_of,
    packages_of,
    resolved,
)
from vlmhyperbench.environments.store import Ready
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.errors import is_disk_full


@asynccontextmanager
async def prepared_virtualenv(
    spec: VirtualenvSpec, workshop: Workshop, *, tell: Tell, own: Collection[str] = ()
) -> AsyncIterator[Prepared]:
    """Build the environment unless it is there, and hold it while the block runs.

    Args:
        spec: What it consists of.
        workshop: Where it is built and kept.
        tell: Is told what takes time.
        own: Distributions of the platform itself that are installed there too, as this process has them.

    Raises:
        InvalidInput: the requirements cannot be resolved or installed.
        NotFound: the machine has no such version of Python, or a package is not where its entry says.
        Denied: a repository wants credentials.
        Conflict: a folder has changed since it was pinned.
        Unavailable: uv is missing, the disk is full, or the package index does not answer.
    """
    async with AsyncExitStack() as held:
        try:
            interpreter = await find_interpreter(spec, workshop.store, workshop.logs)
            async with _requirements(spec, interpreter, workshop, own, tell) as lines:
                whole = await resolved(spec, lines, interpreter, workshop, own=own, tell=tell)
                ready = await _Building(spec, interpreter, whole, workshop, tell).ready(held)
        except OSError as error:
            if not is_disk_full(error):
                raise
            raise full_disk(workshop.store.folder) from error
        yield ready


@asynccontextmanager
async def _requirements(
    spec: VirtualenvSpec, interpreter: Interpreter, workshop: Workshop, own: Collection[str], tell: Tell
) -> AsyncIterator[list[str]]:
    """Yield what an environment needs directly, and keep the wheels that it names while the block runs."""
    lines = [*spec.requirements, *own_requirements(own, workshop.store)]
    async with AsyncExitStack() as wheels:
        await wheels.enter_async_context(held_own_wheels(own, workshop.store))
        for package in spec.packages:
            if isinstance(package, IndexPackage):
                lines.append(f"{package.requirement}=={package.version}")
            else:
                holding = workshop.held_wheel(package, builder_of(spec, interpreter), tell=tell)
                wheel = await wheels.enter_async_context(holding)
                lines.append(f"{package.requirement} @ {wheel.path.as_uri()}")
        yield lines


@dataclass(frozen=True, slots=True)
class _Building:
    """An environment whose packages are known."""

    spec: VirtualenvSpec
    interpreter: Interpreter
    resolved: str
    workshop: Workshop
    tell: Tell

    async def ready(self, held: AsyncExitStack) -> Prepared:
        """Build it unless it is there, and enter the lock of its users into `held`."""
        store = self.workshop.store
        key = environment_key(self.spec, self.interpreter, self.resolved)
        ready, lock_fd = await store.hold_built(key, partial(self._build, key), held, self.tell)
        return Prepared(
            key=key,
            python=str(store.python_of(key)),
            python_version=ready.python_version,
            packages=ready.packages,
            lock_fd=lock_fd,
        )

    async def _build(self, key: str) -> Ready:
        started, store, manager = time.monotonic(), self.workshop.store, self.spec.manager
        folder, file, packages = store.folder_of(key), store.packages_file(key), packages_of(self.resolved)
        await self.tell("installing", len(packages))
        if manager == "conda":
            folder.mkdir()
        else:
            await self._run(key, installer_commands.create(folder, python=self.interpreter.path, manager=manager))
        file.write_text(self.resolved, encoding="utf-8")
        if manager == "conda":
            await self._run(key, installer_commands.install_conda(file, folder))
        await self._run(key, installer_commands.install(file, python=str(store.python_of(key)), manager=manager))
        return Ready(
            python_version=python_version(self.resolved) or self.interpreter.version,
            packages=packages,
            manager=manager,
            size_bytes=await asyncio.to_thread(_size_of, folder),
            build_s=round(time.monotonic() - started, 2),
        )

    async def _run(self, key: str, argv: Sequence[str]) -> None:
        await run_installer(
            Step(
                argv=argv,
                log=self.workshop.logs / f"environment-{key}.log",
                cwd=self.workshop.store.folder,
                what=f"The environment of {names_of(self.spec)} cannot be installed",
                code="environment_failed",
                cure=CORRECT,
            )
        )


def _size_of(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*"))
