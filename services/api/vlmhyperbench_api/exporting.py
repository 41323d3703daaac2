"""Write the exports that were asked for, one at a time in each process of the API.

An export is claimed with a lease that its writer renews; a process that dies leaves it to another one, which writes it
anew. Files lie under a key with the claim, so that two processes never write the same one.
"""

from __future__ import annotations

import asyncio
import tempfile
import zipfile
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar, cast
from uuid import UUID

from vlmhyperbench.data.images import image_key
from vlmhyperbench.db import artifacts, exports, runs
from vlmhyperbench.db.views import ExportView, RunView
from vlmhyperbench.errors import NotFound, Unavailable, VlmHyperBenchError
from vlmhyperbench.exchange.exporting import exported_run, exported_samples
from vlmhyperbench.exchange.formats import ENDINGS, Format, name_of, write_samples
from vlmhyperbench.exchange.pictures import Pictures
from vlmhyperbench.exchange.staging import staged
from vlmhyperbench.logs import get_logger
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.wire.results import Result
from vlmhyperbench.wire.runs import RunDetail
from vlmhyperbench_api.dependencies import read_cursor
from vlmhyperbench_api.reading import read_run
from vlmhyperbench_api.results import Position, results_page
from vlmhyperbench_api.summaries import with_summary

_LOG = get_logger(__name__)
T = TypeVar("T")

PAGE_ROWS: Final = 500
POLL_S: Final = 2.0
RENEW_S: Final = 5.0
_READ_S: Final = 120.0
"""How long the writer's thread waits for a page."""


class _Stopped(Exception):
    """The export was cancelled, or another process has claimed it."""


@dataclass(slots=True)
class _Progress:
    """What the writer's thread has done; the task that renews the lease reads it, and tells the thread to stop."""

    total: int | None = None
    done: int = 0
    is_stopped: bool = False


async def keep_exporting(runtime: Runtime) -> None:
    """Write exports and delete expired ones until cancelled."""
    while True:
        try:
            await _delete_expired(runtime)
            async with runtime.database.transaction() as session:
                export = await exports.claim(session)
            if export is not None:
                await make(runtime, export)
                continue
        except Unavailable as error:
            _LOG.warning("exports.waiting", error=str(error))
        await asyncio.sleep(POLL_S)


async def make(runtime: Runtime, export: ExportView) -> None:
    """Write a claimed export into storage, or record why it cannot be written.

    Raises:
        Unavailable: database or storage do not answer; the export is claimed again once its lease is over.
    """
    progress = _Progress()
    failure: str | None = None
    away: Unavailable | None = None
    async with asyncio.TaskGroup() as group:
        renewing = group.create_task(_renew(runtime, export, progress))
        try:
            await _store(runtime, export, progress)
        except _Stopped:
            _LOG.info("exports.stopped", export=str(export.id))
        except Unavailable as error:
            away = error
        except VlmHyperBenchError as error:
            failure = str(error)
        except Exception:  # noqa: BLE001 - an export that cannot be written must not end the API
            _LOG.exception("exports.failed", export=str(export.id))
            failure = "The API failed in a way that it did not foresee; its log has the reason."
        finally:
            progress.is_stopped = True
            renewing.cancel()
    if away is not None:
        raise away
    if failure is not None:
        async with runtime.database.transaction() as session:
            await exports.fail(session, export, failure)


async def _store(runtime: Runtime, export: ExportView, progress: _Progress) -> None:
    with tempfile.TemporaryDirectory(prefix="vlmhb-export-") as folder:
        path = await _write(runtime, export, progress, Path(folder))
        key = f"exports/{export.id}/{export.claim_id}/{path.name}"
        stored = await asyncio.to_thread(runtime.storage.put, key, path)
    async with runtime.database.transaction() as session:
        is_kept = await exports.finish(
            session,
            export,
            done=progress.done,
            name=path.name,
            storage_key=stored.key,
            sha256=stored.sha256,
            size_bytes=stored.size_bytes,
        )
    if not is_kept:
        await asyncio.to_thread(runtime.storage.delete, stored.key)


async def _renew(runtime: Runtime, export: ExportView, progress: _Progress) -> None:
    while not progress.is_stopped:
        try:
            async with runtime.database.transaction() as session:
                if not await exports.renew(session, export, done=progress.done, total=progress.total):
                    progress.is_stopped = True
        except Unavailable as error:  # the lease decides whether the export is still this process's
            _LOG.warning("exports.not_renewed", error=str(error))
        await asyncio.sleep(RENEW_S)


async def _write(runtime: Runtime, export: ExportView, progress: _Progress, folder: Path) -> Path:
    """Write all runs of an export; return its one file, or an archive of its files."""
    details = [await _detail(runtime, export, run_id) for run_id in export.run_ids]
    progress.total = sum(detail.total or detail.done for detail in details)
    format_, root = cast("Format", export.format), folder / "files"
    loop = asyncio.get_running_loop()
    for detail in details:
        reader = _Reader(runtime, export, loop, progress)
        await asyncio.to_thread(_write_run, reader, detail, format_, root / name_of(detail, format_))
    files = sorted(path for path in root.rglob("*") if path.is_file())
    if len(files) == 1 and format_ in ENDINGS:
        return files[0]
    archive = folder / f"export-{str(export.id)[:8]}-{format_}.zip"
    await asyncio.to_thread(_pack, archive, root, files)
    return archive


async def _detail(runtime: Runtime, export: ExportView, run_id: UUID) -> RunDetail:
    async with runtime.database.transaction() as session:
        detail = await read_run(session, run_id, project_id=export.project_id)
        files = await artifacts.of_run(session, run_id)
    return await with_summary(runtime.storage, detail, files)


@dataclass(frozen=True, slots=True)
class _Reader:
    """What the writer's thread reads of a run, by the event loop of the process."""

    runtime: Runtime
    export: ExportView
    loop: asyncio.AbstractEventLoop
    progress: _Progress

    def pages(self, run_id: UUID) -> Iterator[list[Result]]:
        """Yield the results of a run, page by page."""
        run = self._ask(self._run(run_id))
        cursor: str | None = None
        while True:
            after = read_cursor(cursor, Position)
            page = self._ask(
                results_page(
                    self.runtime.database, self.runtime.storage, run, after=after, limit=PAGE_ROWS, prompts=True
                )
            )
            if page.items:
                yield page.items
                self.progress.done += len(page.items)
            cursor = page.next
            if cursor is None:
                return

    def image(self, sha256: str) -> bytes:
        """Return an image of a sample."""
        return self._ask(self.runtime.storage.open(image_key(sha256), sha256)).read_bytes()

    async def _run(self, run_id: UUID) -> RunView:
        async with self.runtime.database.transaction() as session:
            run = await runs.get(session, run_id, project_id=self.export.project_id)
        if run is None:
            raise NotFound(f"There is no run {run_id}.", cure="It was deleted; ask for an export of others.")
        return run

    def _ask(self, question: Coroutine[Any, Any, T]) -> T:
        if self.progress.is_stopped:
            question.close()
            raise _Stopped
        return asyncio.run_coroutine_threadsafe(question, self.loop).result(_READ_S)


def _write_run(reader: _Reader, detail: RunDetail, format_: Format, path: Path) -> None:
    run = exported_run(detail)
    with staged(path) as staging:
        if format_ == "hf":
            from vlmhyperbench.exchange.as_huggingface import Hub, write_huggingface

            write_huggingface(run, Hub(), out=path, staging=staging)
            reader.progress.done += detail.done
            return
        samples = exported_samples(detail, reader.pages(detail.id))
        write_samples(format_, run, samples, path, staging, Pictures(reader.image))


def _pack(archive: Path, root: Path, files: list[Path]) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for file in files:
            opened.write(file, file.relative_to(root))


async def _delete_expired(runtime: Runtime) -> None:
    async with runtime.database.transaction() as session:
        keys = await exports.expire(session)
    for key in keys:
        await asyncio.to_thread(runtime.storage.delete, key)
