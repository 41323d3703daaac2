"""Virtual environments on this machine: resolved once, built once whoever asks, used under a shared lock."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.environments import injection
from vlmhyperbench.environments.base import Prepared, Tell, disk_is_full
from vlmhyperbench.environments.conda_lines import conda_packages, python_version
from vlmhyperbench.environments.installer import Step, run_step
from vlmhyperbench.environments.store import EnvironmentStore, Ready
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.files import replacing

_KEY_LENGTH = 16
_NAMED = 3
_PYTHON = os.path.realpath(sys.executable)
"""The interpreter behind the platform's own environment, so that no key depends on where that environment lies."""
_CONDA = "conda"
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE)
_ABOUT = "import json, platform, sys; print(json.dumps([sys.executable, platform.python_version()]))"
_CORRECT = "Correct requirements and overrides of the environment in the entry of the backend or the model."


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """An interpreter of this machine."""

    path: str
    version: str


@asynccontextmanager
async def prepared_virtualenv(spec: VirtualenvSpec, folder: Path, logs: Path, *, tell: Tell) -> AsyncIterator[Prepared]:
    """Build the environment unless it is there, and hold it while the block runs.

    Raises:
        InvalidInput: the requirements cannot be resolved or installed.
        NotFound: the machine has no such version of Python.
        Unavailable: uv is missing, the disk is full, or the package index does not answer.
    """
    store = EnvironmentStore(folder)
    async with AsyncExitStack() as held:
        try:
            ready = await _held(spec, store, logs, tell, held)
        except OSError as error:
            full = disk_is_full(error, folder)
            if full is None:
                raise
            raise full from error
        yield ready


async def _held(
    spec: VirtualenvSpec, store: EnvironmentStore, logs: Path, tell: Tell, held: AsyncExitStack
) -> Prepared:
    """Build the environment unless it is there, and enter the lock of its users into `held`."""
    interpreter = await find_interpreter(spec, store, logs)
    resolved = await _resolved(spec, interpreter, store, logs, tell)
    key = environment_key(spec, interpreter, resolved)

    async def build() -> None:
        await _build(spec, interpreter, resolved, key, store, logs, tell)

    ready, lock_fd = await store.hold_built(key, build, held, tell)
    return Prepared(
        key=key,
        python=str(store.python_of(key)),
        python_version=ready.python_version,
        packages=ready.packages,
        lock_fd=lock_fd,
    )


async def find_interpreter(spec: VirtualenvSpec, store: EnvironmentStore, logs: Path) -> Interpreter:
    """Return the interpreter on which an environment is built; conda brings one of the version that is returned.

    Raises:
        NotFound: the machine has no such version.
        Unavailable: uv is missing.
    """
    if spec.manager == "conda":
        return Interpreter(path=_CONDA, version=spec.python or ".".join(platform.python_version_tuple()[:2]))
    if spec.python is None:
        return Interpreter(path=_PYTHON, version=platform.python_version())
    store.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    step = Step(
        argv=injection.find_python(spec.python),
        log=logs / "environment-python.log",
        cwd=store.folder,
        what=f"There is no Python {spec.python} on this machine",
        code="no_python",
        cure=f"Install Python {spec.python}, or leave out python in the environment's entry.",
    )
    try:
        path = (await run_step(step)).strip().splitlines()[-1]
    except InvalidInput as error:
        raise NotFound(f"{step.what}.", cure=step.cure, code=step.code) from error
    about = Step(
        argv=[path, "-I", "-c", _ABOUT],
        log=step.log,
        cwd=step.cwd,
        what=f"{path} does not run",
        code=step.code,
        cure=step.cure,
    )
    executable, version = json.loads(await run_step(about))
    return Interpreter(path=executable, version=version)


def spec_key(spec: VirtualenvSpec, interpreter: Interpreter) -> str:
    """Return the name under which the resolution of a spec is kept."""
    about = [digest_of(spec), interpreter.version, sysconfig.get_platform()]
    return sha256(json.dumps(about).encode()).hexdigest()[:_KEY_LENGTH]


def environment_key(spec: VirtualenvSpec, interpreter: Interpreter, resolved: str) -> str:
    """Return the key of an environment: specs that resolve to the same packages share one."""
    about = [resolved, interpreter.path, interpreter.version, spec.manager, sysconfig.get_platform()]
    return sha256(json.dumps(about).encode()).hexdigest()[:_KEY_LENGTH]


def packages_of(resolved: str) -> dict[str, str]:
    """Return distribution → version of resolved packages; those from channels are named `conda:NAME`."""
    return {**conda_packages(resolved), **dict(_PINNED.findall(resolved))}


async def _resolved(
    spec: VirtualenvSpec, interpreter: Interpreter, store: EnvironmentStore, logs: Path, tell: Tell
) -> str:
    """Return the packages to which a spec is resolved; the first resolution on a machine is kept."""
    name = spec_key(spec, interpreter)
    file = store.resolved_file(name)
    if file.is_file():
        return file.read_text(encoding="utf-8")
    async with store.held(f"{name}.resolved"):
        if not file.is_file():
            await tell("resolving", None)
            with tempfile.TemporaryDirectory(dir=store.folder, prefix=".resolving-") as made, replacing(file) as out:
                out.write_text(
                    await _resolve(spec, interpreter, Path(made), logs / f"environment-{name}.log"), encoding="utf-8"
                )
        return file.read_text(encoding="utf-8")


async def _resolve(spec: VirtualenvSpec, interpreter: Interpreter, made: Path, log: Path) -> str:
    """Pin every package, those of conda first, since they bring the interpreter for which the others are resolved."""
    what = f"The environment of {_short(spec)} cannot be resolved"

    async def run(argv: Sequence[str]) -> None:
        code, cure = "environment_unresolvable", _CORRECT
        await run_step(Step(argv=argv, log=log, cwd=made, what=what, code=code, cure=cure))

    requirements, overrides, out = made / "requirements.txt", made / "overrides.txt", made / "resolved.txt"
    requirements.write_text("\n".join(spec.requirements) + "\n", encoding="utf-8")
    overrides.write_text("\n".join(spec.overrides) + "\n", encoding="utf-8")
    python, version, conda = interpreter.path, None, ""
    if spec.manager == "conda":
        listed = made / "conda.txt"
        await run(injection.resolve_conda(spec.conda, spec.channels, python=interpreter.version, out=listed))
        conda = listed.read_text(encoding="utf-8")
        python, version = _PYTHON, python_version(conda)
    given = overrides if spec.overrides else None
    await run(injection.resolve(requirements, given, python=python, out=out, python_version=version))
    return conda + out.read_text(encoding="utf-8")


async def _build(
    spec: VirtualenvSpec,
    interpreter: Interpreter,
    resolved: str,
    key: str,
    store: EnvironmentStore,
    logs: Path,
    tell: Tell,
) -> None:
    """Build an environment, which the caller holds exclusively; one that fails is removed, now or by the next build."""
    started = time.monotonic()
    folder, python, packages = store.folder_of(key), store.python_of(key), packages_of(resolved)
    await tell("installing", len(packages))
    await store.clear(key)
    what = f"The environment of {_short(spec)} cannot be installed"

    async def run(argv: Sequence[str]) -> None:
        log = logs / f"environment-{key}.log"
        await run_step(Step(argv=argv, log=log, cwd=store.folder, what=what, code="environment_failed", cure=_CORRECT))

    try:
        if spec.manager == "conda":
            folder.mkdir()
        else:
            await run(injection.create(folder, python=interpreter.path, manager=spec.manager))
        file = store.packages_file(key)
        file.write_text(resolved, encoding="utf-8")
        if spec.manager == "conda":
            await run(injection.install_conda(file, folder))
        await run(injection.install(file, python=str(python), manager=spec.manager))
        size_bytes = await asyncio.to_thread(_size_of, folder)
        store.mark_ready(
            key,
            Ready(
                python_version=python_version(resolved) or interpreter.version,
                packages=packages,
                manager=spec.manager,
                size_bytes=size_bytes,
                build_s=round(time.monotonic() - started, 2),
            ),
        )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)  # frees the space at once; nothing is awaited, in case of a cancel
        raise


def _short(spec: VirtualenvSpec) -> str:
    """Return the first requirements, by which a message names an environment."""
    more = len(spec.requirements) - _NAMED
    return ", ".join(spec.requirements[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _size_of(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*"))
