"""Evidence of claims on this worker's disk, until it is artifacts of the run: device samples, and the logs of three.

The logs are those of the engine, of its gateway, and of the worker itself for the claim's job. All files are written
as their content arrives, so that they survive the death of the engine, the gateway or the worker by SIGKILL. A claim
stores them when it ends; what a dead worker left is stored at its next start or claim.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Collection
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from uuid import UUID

from vlmhyperbench.db import artifacts, runs
from vlmhyperbench.errors import Conflict, Fenced, Unavailable
from vlmhyperbench.files import write_whole
from vlmhyperbench.logs import copying_lines, get_logger
from vlmhyperbench.logs.bounded import BoundedLog, log_length, read_ends, read_log
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.worker.claims import ENGINE_LOG, GATEWAY_LOG, RESOURCES, WORKER_LOG, ClaimedJob, ClaimFile
from vlmhyperbench_inference_worker.samples import read_samples, samples_parquet
from vlmhyperbench_inference_worker.serving import Serving


def gateway_log_of(engine_log: Path) -> Path:
    """Return the file for the log of the gateway that runs an engine."""
    return engine_log.with_name("gateway.log")


PUBLISH_S = 10.0
"""Maximum time in which a claim stores its evidence; what it does not store is stored later."""
_ABOUT = "claim.json"
_SAMPLES = "samples.jsonl"
_WORKER_LOG = "worker.log"
_LOG = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _About:
    """What a later process needs to know of a claim."""

    run_id: str
    claim_id: str
    engine_log: str
    """Log of the engine that the claim asked."""
    ready_bytes: int | None = None
    """Length of the log when the engine was ready; None for an engine that this claim loaded."""
    since_bytes: int = 0
    """Length of the log when this claim began to use the engine: what lies before belongs to other claims."""
    gateway_since_bytes: int = 0
    """As `since_bytes`, of the gateway's log."""


class EvidenceFolder:
    """The folder of a worker: one folder per claim, and one per engine for its log, named after its first claim."""

    def __init__(self, root: Path) -> None:
        self._claims = root / "claims"
        self._engines = root / "engines"
        self._open: set[Path] = set()
        """Folders of claims that run."""

    def open(self, job: ClaimedJob) -> ClaimFolder:
        """Begin the evidence of a claim.

        Raises:
            OSError: the folder cannot be written.
        """
        log = self._engines / str(job.claim_id) / "engine.log"
        about = _About(run_id=str(job.run_id), claim_id=str(job.claim_id), engine_log=str(log))
        return ClaimFolder(self._claims / str(job.claim_id), about, self._open, job_id=job.job.id)

    async def recover(self, runtime: Runtime, *, in_use: Collection[Path] = ()) -> None:
        """Store what claims have left that ended without storing it; those that run now are left alone.

        Args:
            runtime: the database and storage.
            in_use: logs of the engines that are loaded, which stay.
        """
        for folder in sorted(set(self._claims.glob("*")) - self._open):
            await _recover(folder, runtime)
        if any(self._claims.glob("*")):
            return  # these may refer to any log
        for folder in self._engines.glob("*"):
            if not any(folder == log.parent for log in in_use):
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


class ClaimFolder:
    """The evidence of one claim."""

    def __init__(self, path: Path, about: _About, open_folders: set[Path], *, job_id: UUID) -> None:
        self._path = path
        self._open = open_folders
        open_folders.add(path)
        self._about = about
        self.samples = path / _SAMPLES
        """File for the device samples."""
        self.engine_log = Path(about.engine_log)
        """File for the log of an engine that this claim loads."""
        path.mkdir(parents=True, exist_ok=True)
        self._write()
        self._log: BoundedLog | None = None
        self._lines = ExitStack()
        self._lines.enter_context(copying_lines("inference", job=job_id, write=self._write_line))

    def note_engine(self, serving: Serving) -> None:
        """Note which engine the claim asks; of one that is loaded already, only the part from now on is of this claim.

        Raises:
            OSError: the folder cannot be written.
        """
        if serving.engine_log is None or serving.engine_log == self.engine_log:
            return
        self._about = replace(
            self._about,
            engine_log=str(serving.engine_log),
            ready_bytes=serving.ready_bytes,
            since_bytes=log_length(serving.engine_log),
            gateway_since_bytes=log_length(gateway_log_of(serving.engine_log)),
        )
        self._write()

    async def close(self, job: ClaimedJob, *, is_needed: bool) -> None:
        """Store the evidence as artifacts of the run, unless it is not needed; what cannot be stored now stays."""
        self._open.discard(self._path)
        self._lines.close()
        if job.fenced.is_set():
            return
        try:
            async with asyncio.timeout(PUBLISH_S):
                for file, content in await asyncio.to_thread(_files, self._path) if is_needed else []:
                    await job.add_file(file, content)
                await asyncio.to_thread(shutil.rmtree, self._path, ignore_errors=True)
        except (Conflict, Fenced, OSError, TimeoutError, Unavailable) as error:
            _LOG.warning("evidence.not_stored", folder=str(self._path), reason=repr(error))

    def _write_line(self, line: str) -> None:
        if self._log is None:
            self._log = self._lines.enter_context(BoundedLog(self._path / _WORKER_LOG))
        self._log.write(line)

    def _write(self) -> None:
        write_whole(self._path / _ABOUT, json.dumps(asdict(self._about)).encode())


async def _recover(folder: Path, runtime: Runtime) -> None:
    about = _read_about(folder)
    try:
        if about is not None:
            for file, content in await asyncio.to_thread(_files, folder):
                await _add_artifact(runtime, about, file, content)
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    except (Conflict, OSError, Unavailable) as error:
        _LOG.warning("evidence.not_stored", folder=str(folder), reason=str(error))


async def _add_artifact(runtime: Runtime, about: _About, file: ClaimFile, content: bytes) -> None:
    """Add a file of a claim that has ended to its run, whose state it does not change."""
    run_id, claim_id = UUID(about.run_id), UUID(about.claim_id)
    key = f"runs/{run_id}/{file.kind}/left-{file.name(claim_id)}"
    stored = await asyncio.to_thread(runtime.storage.put, key, content, media_type=file.media_type)
    async with runtime.database.transaction() as session:
        run = await runs.get(session, run_id)
        if run is None:
            return
        await artifacts.add(
            session,
            project_id=run.project_id,
            run_id=run_id,
            claim_id=claim_id,
            kind=file.kind,
            name=file.name(claim_id),
            media_type=file.media_type,
            storage_key=stored.key,
            sha256=stored.sha256,
            size_bytes=stored.size_bytes,
        )


def _read_about(folder: Path) -> _About | None:
    with suppress(OSError, ValueError, TypeError):
        return _About(**json.loads((folder / _ABOUT).read_bytes()))
    return None


def _files(folder: Path) -> list[tuple[ClaimFile, bytes]]:
    """Return the files of a claim that have content."""
    about = _read_about(folder)
    samples = read_samples(folder / _SAMPLES)
    logs = {WORKER_LOG: read_log(folder / _WORKER_LOG)}
    if about is not None:
        engine_log = Path(about.engine_log)
        logs[ENGINE_LOG] = read_log(engine_log, first_bytes=about.ready_bytes, since=about.since_bytes)
        logs[GATEWAY_LOG] = read_ends(gateway_log_of(engine_log), since=about.gateway_since_bytes)
    files = [(RESOURCES, samples_parquet(samples))] if samples else []
    return [*files, *((file, log.encode()) for file, log in logs.items() if log)]
