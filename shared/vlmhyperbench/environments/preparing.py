"""The door of this room: prepare an environment of any kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from vlmhyperbench.domain.environments import ApptainerSpec, DockerSpec, EnvironmentSpec, RemoteSpec
from vlmhyperbench.environments.apptainer_images import prepared_apptainer
from vlmhyperbench.environments.base import Prepared, Tell, tell_nobody
from vlmhyperbench.environments.docker_images import prepared_docker
from vlmhyperbench.environments.local_venv import prepared_virtualenv
from vlmhyperbench.environments.rented_machines import prepared_rented
from vlmhyperbench.environments.store import EnvironmentStore
from vlmhyperbench.environments.wheels import Workshop


@asynccontextmanager
async def prepared(
    spec: EnvironmentSpec,
    folder: Path,
    logs: Path,
    *,
    secrets_dir: Path | None = None,
    tell: Tell = tell_nobody,
    own: Collection[str] = (),
) -> AsyncIterator[Prepared]:
    """Build an environment unless it is there, and hold it while the block runs.

    Args:
        spec: What it consists of.
        folder: Folder of all environments of this machine.
        logs: Folder of the installers' logs.
        secrets_dir: Folder of the secrets with which private repositories are read.
        tell: Is told what takes time.
        own: Distributions of the platform itself that a virtual environment holds too, as this process has them.

    Raises:
        InvalidInput: the requirements cannot be resolved or installed; the message ends with the installer's log.
        NotFound: the machine has no such version of Python, or a package is not where its entry says.
        Denied: a repository wants credentials.
        Conflict: a folder has changed since it was pinned.
        Unavailable: uv is missing, the disk is full, or the package index does not answer.
    """
    workshop = Workshop(store=EnvironmentStore(folder), logs=logs, secrets_dir=secrets_dir or folder / "no-secrets")
    async with _prepared(spec, workshop, tell, own) as ready:
        yield ready


def _prepared(
    spec: EnvironmentSpec, workshop: Workshop, tell: Tell, own: Collection[str]
) -> AbstractAsyncContextManager[Prepared]:
    if isinstance(spec, DockerSpec):
        return prepared_docker(spec, workshop.store, tell=tell)
    if isinstance(spec, ApptainerSpec):
        return prepared_apptainer(spec, workshop.store, workshop.logs, tell=tell)
    if isinstance(spec, RemoteSpec):
        return prepared_rented(spec, workshop, tell=tell)
    return prepared_virtualenv(spec, workshop, tell=tell, own=own)
