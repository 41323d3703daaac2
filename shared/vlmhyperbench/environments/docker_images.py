"""Docker images as environments: found by their digest, their packages listed once, used under a shared lock."""

from __future__ import annotations

import asyncio
import json
import os
import time
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

from vlmhyperbench.domain.digests import short_key
from vlmhyperbench.domain.environments import DockerSpec
from vlmhyperbench.environments.base import Prepared, Tell
from vlmhyperbench.environments.containers import prepared_container
from vlmhyperbench.environments.docker_daemon import OWNER, docker_client, find_image
from vlmhyperbench.environments.standing_in import ABOUT, user
from vlmhyperbench.environments.store import Ready
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.errors import InvalidInput, NotFound, Unavailable
from vlmhyperbench.processes import owner_of

RUN = "vlmhyperbench.environments.docker_run"


def prepared_docker(spec: DockerSpec, workshop: Workshop, *, tell: Tell) -> AbstractAsyncContextManager[Prepared]:
    """Find the image, pull it if that is declared, list its packages once, and hold it while the block runs.

    Raises:
        InvalidInput: its interpreter does not run.
        NotFound: the image is not on this machine.
        Unavailable: Docker is not there, or the image cannot be pulled.
    """

    async def build(_: Path) -> Ready:
        return await asyncio.to_thread(_examine, spec)

    store, key = workshop.store, docker_key(spec)
    return prepared_container(spec, store, key, RUN, build=build, check=partial(_find, spec), tell=tell)


def docker_key(spec: DockerSpec) -> str:
    """Return the key of an image's record; limits do not change what is in it."""
    return short_key(["docker", spec.image, spec.python])


def _find(spec: DockerSpec, _: Ready) -> None:
    with docker_client() as client:
        _pulled(client, spec)


def _pulled(client: Any, spec: DockerSpec) -> Any:
    from docker.errors import APIError

    try:
        return find_image(client, spec.image)
    except NotFound:
        if spec.pull == "never":
            raise
    try:
        return client.images.pull(spec.image)
    except APIError as error:
        message = f"The image {spec.image} cannot be pulled: {error.explanation or error}."
        raise Unavailable(message, cure="Check the registry and `docker login`.", code="no_image") from error


def _examine(spec: DockerSpec) -> Ready:
    """List the packages of an image in a container without rights and network."""
    from docker.errors import APIError

    started = time.monotonic()
    with docker_client() as client:
        image = _pulled(client, spec)
        container = client.containers.create(
            image.id,
            entrypoint=[spec.python, "-I", "-c", ABOUT],
            command=[],
            network_mode="none",
            user=user(),
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true"],
            read_only=True,
            labels={OWNER: owner_of(os.getpid())},
        )
        try:
            container.start()
            status = container.wait()["StatusCode"]
            output = container.logs(stderr=status != 0).decode("utf-8", "replace")
        except APIError as error:
            status, output = 127, str(error.explanation or error)
        finally:
            container.remove(force=True)
        if status != 0:
            raise InvalidInput(
                f"The interpreter {spec.python} of the image {spec.image} does not run: {output.strip()[-1000:]}.",
                cure="Write the path of the image's Python as python in the entry.",
                code="no_python",
            )
        version, packages = json.loads(output.splitlines()[-1])
        return Ready(
            python_version=version,
            packages=dict(sorted(packages.items())),
            manager="docker",
            size_bytes=image.attrs["Size"],
            build_s=round(time.monotonic() - started, 2),
            image=image.id,
        )
