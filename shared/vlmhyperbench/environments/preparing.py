"""The door of this room: prepare an environment of any kind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from vlmhyperbench.domain.environments import EnvironmentSpec
from vlmhyperbench.environments.base import Prepared, Tell, tell_nobody
from vlmhyperbench.environments.local_venv import prepared_virtualenv


@asynccontextmanager
async def prepared(
    spec: EnvironmentSpec, folder: Path, logs: Path, *, tell: Tell = tell_nobody
) -> AsyncIterator[Prepared]:
    """Build an environment unless it is there, and hold it while the block runs.

    Args:
        spec: What it consists of.
        folder: Folder of all environments of this machine.
        logs: Folder of the installers' logs.
        tell: Is told what takes time.

    Raises:
        InvalidInput: the requirements cannot be resolved or installed; the message ends with the installer's log.
        NotFound: the machine has no such version of Python.
        Unavailable: uv is missing, the disk is full, or the package index does not answer.
    """
    async with prepared_virtualenv(spec, folder, logs, tell=tell) as ready:
        yield ready
