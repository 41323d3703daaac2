"""Containers of Apptainer as environments: a SIF that was given or is built once, known by its hash."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from vlmhyperbench.domain.digests import short_key
from vlmhyperbench.domain.environments import ApptainerSpec
from vlmhyperbench.environments.apptainer_command import execute, find_apptainer
from vlmhyperbench.environments.base import Prepared, Tell
from vlmhyperbench.environments.containers import prepared_container
from vlmhyperbench.environments.installer import index_passwords, is_unreachable
from vlmhyperbench.environments.installer_commands import INSTALLER_VARIABLES
from vlmhyperbench.environments.programs import Step, last_lines, run_step
from vlmhyperbench.environments.standing_in import ABOUT
from vlmhyperbench.environments.store import Ready
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.errors import Conflict, NotFound, Unavailable
from vlmhyperbench.files import stamp_of
from vlmhyperbench.folders import file_sha256

RUN = "vlmhyperbench.environments.apptainer_run"
_SIF = (32, b"SIF_MAGIC")
"""Where a SIF says what it is."""
_CORRECT = "Correct the environment in the entry of the backend or the model."


@asynccontextmanager
async def prepared_apptainer(spec: ApptainerSpec, workshop: Workshop, *, tell: Tell) -> AsyncIterator[Prepared]:
    """Build the SIF unless it is there, check its hash, and hold it while the block runs.

    Raises:
        Conflict: a file is not the one that was pinned.
        InvalidInput: it cannot be built, or its interpreter does not run.
        NotFound: the file is not on this machine.
        Unavailable: Apptainer is not installed, or the disk is full.
    """
    find_apptainer()
    key = apptainer_key(spec)
    build = partial(_built, spec, workshop.logs / f"environment-{key}.log")
    async with prepared_container(spec, workshop.store, key, RUN, build=build, check=_check, tell=tell) as ready:
        yield ready


def apptainer_key(spec: ApptainerSpec) -> str:
    """Return the key of a SIF: the hash of what it is built from."""
    source = [spec.sha256, spec.file if spec.sha256 is None else None, spec.definition]
    return short_key(["apptainer", source, spec.python])


async def _built(spec: ApptainerSpec, log: Path, folder: Path) -> Ready:
    started = time.monotonic()
    sif = await _sif(spec, folder, log)
    what = f"The interpreter {spec.python} of {spec.file or 'the definition'} does not run"
    argv = execute(sif, [spec.python, "-I", "-c", ABOUT])
    listed = await run_step(Step(argv=argv, log=log, cwd=folder, what=what, code="no_python", cure=_CORRECT))
    version, packages = json.loads(listed.splitlines()[-1])
    return Ready(
        python_version=version,
        packages=dict(sorted(packages.items())),
        manager="apptainer",
        size_bytes=sif.stat().st_size,
        build_s=round(time.monotonic() - started, 2),
        image="sha256:" + await asyncio.to_thread(file_sha256, sif),
        image_file=str(sif),
        image_stamp=stamp_of(sif),
    )


async def _sif(spec: ApptainerSpec, folder: Path, log: Path) -> Path:
    """Return the SIF that was given, or build one from an archive or a definition."""
    if spec.file is not None:
        file = Path(spec.file)
        if await asyncio.to_thread(_is_sif, file, spec.sha256):
            return file
        source = f"docker-archive:{file}"
    else:
        definition = folder / "container.def"
        definition.write_text(spec.definition or "", encoding="utf-8")
        source = str(definition)
    sif = folder / "image.sif"
    argv = [find_apptainer(), "build", "--disable-cache", str(sif), source]
    what, code = "The container of Apptainer cannot be built", "environment_failed"
    step = Step(argv=argv, log=log, cwd=folder, what=what, code=code, cure=_CORRECT, program="build")
    # A definition may install packages, from the indexes of this machine.
    await run_step(step, inherited=INSTALLER_VARIABLES, secrets=index_passwords(), explain=_unreachable)
    sif.chmod(0o444)
    return sif


def _unreachable(step: Step, _status: int, output: Sequence[str]) -> Unavailable | None:
    """Return the error of a server that does not answer; None where a build failed for another reason."""
    if not is_unreachable(output):
        return None
    message = f"{step.what}, because a server does not answer. The end of the build's log:\n{last_lines(output)}\n"
    cure = "Check the network, and the servers that the definition names."
    return Unavailable(message, cure=cure, code="source_unreachable")


def _is_sif(file: Path, digest: str | None) -> bool:
    """Check the hash of a file that was given, and tell a SIF from an archive."""
    if not file.is_file():
        cure = "Put it there, or correct file in the environment of the entry."
        raise NotFound(f"There is no file {file}.", cure=cure, code="no_image")
    if file_sha256(file) != digest:
        raise _changed(file)
    with file.open("rb") as content:
        return content.read(64)[_SIF[0] :].startswith(_SIF[1])


def _check(ready: Ready) -> None:
    """Compare the SIF with its hash, which is taken again only if the file was touched."""
    file = Path(ready.image_file or "")
    if not file.is_file():
        cure = "Put it there again, or remove the environment with `vlmhyperbench envs remove`."
        raise NotFound(f"There is no file {file}.", cure=cure, code="no_image")
    if stamp_of(file) != ready.image_stamp and f"sha256:{file_sha256(file)}" != ready.image:
        raise _changed(file)


def _changed(file: Path) -> Conflict:
    cure = "Write its present sha256 into the entry, or restore the file; `envs remove` forgets a built one."
    return Conflict(f"The file {file} is not the one that was pinned.", cure=cure, code="image_changed")
