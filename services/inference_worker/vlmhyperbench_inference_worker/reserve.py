"""A load generator that waits for the next job: started while nothing is measured, so that no job waits for it."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from uuid import uuid4

from vlmhyperbench.errors import Unavailable
from vlmhyperbench.load.process import LoadProcess
from vlmhyperbench.logs import get_logger

_LOG = get_logger(__name__)


class Reserve:
    """Hands out load generators; each has a folder of its own with `plan` and `record` in it."""

    def __init__(self, folder: Path) -> None:
        """Own `folder`; what an earlier boot left there is removed."""
        shutil.rmtree(folder, ignore_errors=True)
        self._folder = folder
        self._waiting: asyncio.Task[LoadProcess] | None = None

    def refill(self) -> None:
        """Begin to start the next one; does nothing where one waits or starts."""
        if self._waiting is None:
            self._waiting = asyncio.create_task(self._start(), name="start-load")

    async def take(self) -> LoadProcess:
        """Return one that runs; whoever takes it gives it back to `end`.

        Raises:
            Unavailable: the load generator is not installed.
            OSError: it cannot be started, or its folders not made.
        """
        process = await self._the_waiting()
        if process is None:
            return await self._start()
        if process.is_running:
            return process
        await end(process, term_s=0)
        return await self._start()

    async def close(self) -> None:
        """End the one that waits."""
        process = await self._the_waiting()
        if process is not None:
            await end(process, term_s=0)

    async def _the_waiting(self) -> LoadProcess | None:
        waiting, self._waiting = self._waiting, None
        try:
            return await waiting if waiting is not None else None
        except (OSError, Unavailable) as error:
            _LOG.warning("reserve.not_started", reason=str(error))
            return None

    async def _start(self) -> LoadProcess:
        folder = self._folder / str(uuid4())
        await asyncio.to_thread(_make, folder)
        return await LoadProcess.start(folder / "plan", folder / "record")


def folder_of(process: LoadProcess) -> Path:
    """Return the folder that holds a load generator's plan and record."""
    return process.record_folder.parent


async def end(process: LoadProcess, *, term_s: float) -> None:
    """End a load generator and remove its folder."""
    await process.stop(term_s=term_s)
    await asyncio.to_thread(shutil.rmtree, folder_of(process), ignore_errors=True)


def _make(folder: Path) -> None:
    for name in ("plan", "record"):
        (folder / name).mkdir(parents=True)
