"""The door of this room: prepare an environment of any kind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from vlmhyperbench.domain.environments import ApptainerSpec, DockerSpec, EnvironmentSpec
from vlmhyperbench.environments.apptainer_images import prepared_apptainer
from vlmhyperbench.environments.base import Prepared, Tell, tell_nobody
from vlmhyperbench.environments.docker_images import prepared_docker
from vlmhyperbench.environments.local_venv import prepared_virtualenv


@asynccontextmanager
async def prepared(
    spec: EnvironmentSpec, folder: Path, logs: Path, *, devices: tuple[str, ...] = (), tell: Tell = tell_nobody
) -> AsyncIterator[Prepared]:
    """Build an environment unless it is there, and hold it while the block runs.

    Args:
        spec: What it consists of.
        folder: Folder of all environments of this machine.
        logs: Folder of the installers' logs.
        devices: UUIDs of the GPUs that a container may use.
        tell: Is told what takes time.

    Raises:
        InvalidInput: the requirements cannot be resolved or installed; the message ends with the installer's log.
        NotFound: the machine has no such version of Python.
        Unavailable: uv is missing, the disk is full, or the package index does not answer.
    """
    async with _prepared(spec, folder, logs, devices, tell) as ready:
        yield ready


def _prepared(
    spec: EnvironmentSpec, folder: Path, logs: Path, devices: tuple[str, ...], tell: Tell
) -> AbstractAsyncContextManager[Prepared]:
    if isinstance(spec, DockerSpec):
        return prepared_docker(spec, folder, devices, tell=tell)
    if isinstance(spec, ApptainerSpec):
        return prepared_apptainer(spec, folder, logs, devices, tell=tell)
    return prepared_virtualenv(spec, folder, logs, tell=tell)
