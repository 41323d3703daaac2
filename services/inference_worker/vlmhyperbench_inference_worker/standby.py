"""A load generator on standby for the next job, started while nothing is measured, so that no job waits for it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from vlmhyperbench.errors import Unavailable
from vlmhyperbench.load.process import END_SECONDS, LoadProcess
from vlmhyperbench.logs import get_logger

_LOG = get_logger(__name__)


class Standby:
    """Lends load generators, each with its own folder, which holds the folders `plan` and `record`."""

    def __init__(self, folder: Path) -> None:
        """Take over `folder` and remove what an earlier process of this worker left there."""
        shutil.rmtree(folder, ignore_errors=True)
        self._folder = folder
        self._starting: asyncio.Task[LoadProcess] | None = None

    def refill(self) -> None:
        """Begin to start the next load generator; does nothing where one is ready or starting."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start(), name="start-load")

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[LoadProcess]:
        """Yield a load generator that runs, and end it; kill it at once where the borrower ends with an error.

        Raises:
            Unavailable: the load generator is not installed.
            OSError: the process cannot be started, or its folders cannot be created.
        """
        process = await self._ready() or await self._start()
        term_s = 0.0
        try:
            yield process
            term_s = END_SECONDS
        finally:
            await _end(process, term_s=term_s)

    async def close(self) -> None:
        """End the load generator on standby."""
        process = await self._ready()
        if process is not None:
            await _end(process, term_s=0)

    async def _ready(self) -> LoadProcess | None:
        """Take the load generator on standby; None where there is none, or it has ended."""
        starting, self._starting = self._starting, None
        try:
            process = await starting if starting is not None else None
        except (OSError, Unavailable) as error:
            _LOG.warning("standby.not_started", reason=str(error))
            return None
        if process is not None and not process.is_running:
            await _end(process, term_s=0)
            return None
        return process

    async def _start(self) -> LoadProcess:
        folder = self._folder / str(uuid4())
        await asyncio.to_thread(_make, folder)
        return await LoadProcess.start(folder / "plan", folder / "record")


async def _end(process: LoadProcess, *, term_s: float) -> None:
    """End a load generator and remove its folder."""
    await process.stop(term_s=term_s)
    await asyncio.to_thread(shutil.rmtree, process.record_folder.parent, ignore_errors=True)


def _make(folder: Path) -> None:
    for name in ("plan", "record"):
        (folder / name).mkdir(parents=True)
