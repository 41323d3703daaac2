"""The connection to Docker on this machine, and what an ended launcher left there."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from vlmhyperbench.errors import NotFound, Unavailable
from vlmhyperbench.extras import needed_for
from vlmhyperbench.processes import is_of_a_running_process

OWNER = "io.vlmhyperbench.owner"
"""Label of containers and networks: the process with which they end (`owner_of`)."""

_START = "Start Docker's daemon, for example with `sudo systemctl start docker`."
_INSTALL = "Install Docker Engine (Debian and Ubuntu: `sudo apt install docker.io`), or use a virtualenv or Apptainer."
_GPUS = "Install the NVIDIA Container Toolkit, and run `sudo nvidia-ctk runtime configure --runtime=docker`."
_PERMIT = "Add the user to the group docker (`sudo usermod -aG docker USER`), and log in again."


@contextmanager
def docker_client() -> Iterator[Any]:
    """Yield a client of Docker's daemon on this machine.

    Raises:
        Unavailable: the library or Docker is not installed, the daemon does not answer or does not allow it, or it
            cannot give an engine an address that this machine reaches.
    """
    address = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if not address.startswith("unix://"):
        message = f"DOCKER_HOST is {address}: an engine's container must run on the worker's machine."
        raise Unavailable(message, cure="Unset DOCKER_HOST, or name a local socket.", code="no_docker")
    _knock(address.removeprefix("unix://"))  # before the library is imported, which takes longer
    with needed_for("An engine in a Docker container", extra="docker"):
        import docker
        from docker.errors import APIError, DockerException
    try:
        client = docker.DockerClient(base_url=address, version="auto")
    except DockerException as error:
        raise Unavailable(f"Docker does not answer: {error}.", cure=_START, code="no_docker") from error
    try:
        if any("rootless" in option for option in client.info().get("SecurityOptions") or ()):
            message = "Docker runs rootless, and this machine cannot reach the address of such a container."
            raise Unavailable(message, cure="Use Docker of the system, a virtualenv or Apptainer.", code="no_docker")
        yield client
    except APIError as error:
        reason = str(error.explanation or error)
        cure = _GPUS if "gpu" in reason else ""
        raise Unavailable(f"Docker refuses: {reason}.", cure=cure, code="docker_failed") from error
    finally:
        client.close()


def find_image(client: Any, image: str) -> Any:
    """Return an image of this machine.

    Raises:
        NotFound: it is not on this machine; code `no_image`.
    """
    from docker.errors import ImageNotFound

    try:
        return client.images.get(image)
    except ImageNotFound as error:
        raise NotFound(
            f"Docker has no image {image} on this machine.",
            cure="Build it or load it with `docker load`, and write its id; or name it by NAME@sha256:DIGEST with "
            "pull: missing.",
            code="no_image",
        ) from error


def docker_version() -> str:
    """Return the version of Docker's daemon on this machine.

    Raises:
        Unavailable: see `docker_client`.
    """
    with docker_client() as client:
        return str(client.version()["Version"])


def remove_orphaned_containers() -> list[str]:
    """Remove what ended launchers left, where there is Docker; return the names of the containers."""
    try:
        with docker_client() as client:
            return remove_orphans(client)
    except Unavailable:  # without Docker, nothing was left; what it refuses, the next launcher tries again
        return []


def remove_orphans(client: Any) -> list[str]:
    """Remove containers and networks whose process has ended; return the names of the containers."""
    from docker.errors import APIError

    removed: list[str] = []
    for container in client.containers.list(all=True, filters={"label": OWNER}, ignore_removed=True):
        if not is_of_a_running_process(container.labels[OWNER]):
            with suppress(APIError):  # another process removes it at the same time
                container.remove(force=True)
                removed.append(container.name)
    for network in client.networks.list(filters={"label": OWNER}):
        if not is_of_a_running_process(network.attrs["Labels"][OWNER]):
            with suppress(APIError):
                network.remove()
    return removed


def _knock(path: str) -> None:
    """Connect to Docker's socket; say what is missing: Docker, its daemon, or the right to use it."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
    except PermissionError as error:
        raise Unavailable(f"This user may not use Docker ({path}).", cure=_PERMIT, code="no_docker") from error
    except OSError as error:
        if shutil.which("dockerd") is None and not Path(path).exists():
            raise Unavailable("Docker is not installed on this machine.", cure=_INSTALL, code="no_docker") from error
        raise Unavailable(f"Docker's daemon does not answer at {path}.", cure=_START, code="no_docker") from error
