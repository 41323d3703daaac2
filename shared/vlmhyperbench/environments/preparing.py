"""The door of this room: prepare an environment of any kind."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager

from vlmhyperbench.domain.environments import ApptainerSpec, DockerSpec, EnvironmentSpec, RentedSpec
from vlmhyperbench.environments.apptainer_images import prepared_apptainer
from vlmhyperbench.environments.base import Prepared, Tell, tell_nobody
from vlmhyperbench.environments.docker_images import prepared_docker
from vlmhyperbench.environments.local_venv import prepared_virtualenv
from vlmhyperbench.environments.rented_machines import prepared_rented
from vlmhyperbench.environments.wheels import Workshop


def prepared(
    spec: EnvironmentSpec, workshop: Workshop, *, tell: Tell = tell_nobody, own: Collection[str] = ()
) -> AbstractAsyncContextManager[Prepared]:
    """Build an environment unless it is there, and hold it while the block runs.

    Args:
        spec: What it consists of.
        workshop: Where it is built and kept.
        tell: Is told what takes time.
        own: Distributions of the platform itself that a virtual environment holds too, as this process has them.

    Raises:
        InvalidInput: the requirements cannot be resolved or installed; the message ends with the installer's log.
        NotFound: the machine has no such version of Python, or a package is not where its entry says.
        Denied: a repository wants credentials.
        Conflict: a folder has changed since it was pinned.
        Unavailable: uv is missing, the disk is full, or the package index does not answer.
    """
    if isinstance(spec, DockerSpec):
        return prepared_docker(spec, workshop, tell=tell)
    if isinstance(spec, ApptainerSpec):
        return prepared_apptainer(spec, workshop, tell=tell)
    if isinstance(spec, RentedSpec):
        return prepared_rented(spec, workshop, tell=tell)
    return prepared_virtualenv(spec, workshop, tell=tell, own=own)
