"""Details of a claim for people who watch its run: ended requests, device samples, log lines; sent while one listens.

Whether somebody listens is asked once a second. While nobody does, nothing is read, kept or sent, so that watching
costs a measurement nothing; what it costs otherwise is bounded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

from vlmhyperbench.bus import (
    MAX_LINE_CHARACTERS,
    MAX_LINES,
    MAX_SAMPLES,
    DoneSample,
    LinesLogged,
    LogLine,
    ResourcesSampled,
    SamplesDone,
)
from vlmhyperbench.db.views import NewFact
from vlmhyperbench.domain.units import NS_PER_MS
from vlmhyperbench.logs import process_masker
from vlmhyperbench.logs.bounded import log_length, read_tail
from vlmhyperbench.logs.recent import RecentLines
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.watch import Watch

INTERVAL_S = 1.0
MAX_READ_BYTES = 256 * 1024
"""Of one log in one interval; lines before are left out."""

Source = Literal["engine", "gateway", "worker"]


class Details:
    """Sends the details of one claim until its `async with` block ends."""

    def __init__(self, job: ClaimedJob, watch: Watch, key_of: Callable[[int], str]) -> None:
        """`key_of` returns the key of the sample of an ordinal."""
        self._job = job
        self._watch = watch
        self._key_of = key_of
        self._tails: dict[Source, _Tail] = {}
        self._own = RecentLines(job.run_id)
        self._lines = _Lines()
        self._listeners = 0
        self._wants_samples = False
        self._ended: deque[tuple[int, NewFact]] = deque(maxlen=MAX_SAMPLES)
        self._left_out = 0
        self._stack = ExitStack()
        self._task: asyncio.Task[None] | None = None

    def follow_log(self, source: Source, path: Path, since: int | None = None) -> None:
        """Send the lines that are written to a log from a location on; None: from its present end."""
        self._tails[source] = _Tail(path, log_length(path) if since is None else since)

    def add(self, rows: Sequence[NewFact], *, phase: int) -> None:
        """Note requests that ended, if somebody wants to know."""
        if self._wants_samples:
            self._left_out += max(0, len(self._ended) + len(rows) - MAX_SAMPLES)
            self._ended.extend((phase, row) for row in rows[-MAX_SAMPLES:])

    async def __aenter__(self) -> Self:
        self._stack.enter_context(self._own)
        self._task = asyncio.create_task(self._run(), name="details")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if not self._job.fenced.is_set():
            await self._send()
        self._stack.close()

    async def _run(self) -> None:
        while True:
            await self._send()
            await asyncio.sleep(INTERVAL_S)

    async def _send(self) -> None:
        bus, run_id = self._job.runtime.bus, self._job.run_id
        listeners = await bus.listeners(run_id)
        self._wants_samples = "samples" in listeners
        resources = self._watch.latest() if "resources" in listeners else None
        if resources is not None:
            await bus.publish_detail(ResourcesSampled(run_id=run_id, at=datetime.now(UTC), resources=resources))
        if self._ended:
            samples = [self._sample(phase, row) for phase, row in self._ended]
            left_out, self._left_out = self._left_out, 0
            self._ended.clear()
            await bus.publish_detail(SamplesDone(run_id=run_id, samples=samples, left_out=left_out))
        now = listeners.get("logs", 0)
        has_new_listener, self._listeners = now > self._listeners, now
        if now:
            await self._send_lines(is_repeated=has_new_listener)

    async def _send_lines(self, *, is_repeated: bool) -> None:
        """Send new lines; for a new listener the last ones too, which the others know by their numbers."""
        for source, tail in self._tails.items():
            self._lines.add(source, await asyncio.to_thread(tail.read))
        self._lines.add("worker", self._own.take())
        lines, left_out = self._lines.take(is_repeated=is_repeated)
        if lines:
            run_id, claim_id = self._job.run_id, self._job.claim_id
            message = LinesLogged(run_id=run_id, claim_id=claim_id, lines=lines, left_out=left_out)
            await self._job.runtime.bus.publish_detail(message)

    def _sample(self, phase: int, row: NewFact) -> DoneSample:
        return DoneSample(
            key=self._key_of(row.ordinal),
            phase=phase,
            ordinal=row.ordinal,
            status=row.status,
            error_code=row.error_code,
            latency_ms=None if row.latency_ns is None else row.latency_ns / NS_PER_MS,
            ttft_ms=None if row.ttft_user_ns is None else row.ttft_user_ns / NS_PER_MS,
            output_tokens=row.completion_tokens,
        )


class _Lines:
    """The last lines of all sources, numbered, and how many of them were sent."""

    def __init__(self) -> None:
        self._last: deque[LogLine] = deque(maxlen=MAX_LINES)
        self._next: dict[Source, int] = {}
        self._unsent = 0

    def add(self, source: Source, lines: Iterable[str]) -> None:
        for line in lines:
            no = self._next.get(source, 0)
            self._next[source] = no + 1
            masked = process_masker.mask(line)[:MAX_LINE_CHARACTERS]
            self._last.append(LogLine(source=source, no=no, text=masked))
            self._unsent += 1

    def take(self, *, is_repeated: bool) -> tuple[list[LogLine], int]:
        """Return the lines to send, and how many were written too fast to be among them."""
        unsent, self._unsent = self._unsent, 0
        lines = list(self._last)
        kept = lines if is_repeated else lines[len(lines) - min(unsent, len(lines)) :]
        return kept, max(0, unsent - MAX_LINES)


class _Tail:
    """Reads what is written to a log, in whole lines."""

    def __init__(self, path: Path, since: int) -> None:
        self._path = path
        self._since = since
        self._rest = b""

    def read(self) -> list[str]:
        """Return the lines since the last call; none where the log cannot be read now."""
        try:
            data, end = read_tail(self._path, self._since, max_bytes=MAX_READ_BYTES)
        except OSError:  # a segment was removed between its listing and its reading; the next call reads what is left
            return []
        is_cut = end - len(data) > self._since
        self._since = end
        *lines, self._rest = ((b"" if is_cut else self._rest) + data).split(b"\n")
        return [line.decode("utf-8", "replace").rstrip("\r") for line in (lines[1:] if is_cut else lines)]
