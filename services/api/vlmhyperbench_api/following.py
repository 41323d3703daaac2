"""What one client of the live feed gets: a snapshot of each stream, its events in order, the newest of all else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias
from uuid import UUID

from vlmhyperbench.db import runs
from vlmhyperbench.errors import InvalidInput, NotFound, Unavailable
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.wire.live import Cursor, LiveRefusal, Snapshot
from vlmhyperbench_api.feed import Feed, Follower
from vlmhyperbench_api.presenting import progress_of
from vlmhyperbench_api.reading import read_experiment, read_run
from vlmhyperbench_api.security import Principal
from vlmhyperbench_api.tails import Message

MAX_STREAMS = 256
_RETRY_S = 1.0
"""Pause before a failed database query is retried."""

Send: TypeAlias = Callable[[Message[Any]], Awaitable[None]]


class Following:
    """The streams that a client follows, each by its cursor; `send` waits while the client is slow."""

    def __init__(self, runtime: Runtime, feed: Feed, principal: Principal, send: Send) -> None:
        self.follower = Follower(
            key_prefix=principal.key_prefix,
            ends_at=principal.session_ends_at,
            session_nonce=principal.session_nonce,
        )
        self._runtime = runtime
        self._feed = feed
        self._principal = principal
        self._send = send

    async def subscribe(self, cursor: Cursor) -> None:
        """Send a snapshot, then read the stream once for events that came before the first hint.

        Raises:
            InvalidInput: the client follows too many streams.
            Unavailable: the database does not answer.
        """
        follower, stream = self.follower, cursor.stream
        if stream not in follower.sent and len(follower.sent) >= MAX_STREAMS:
            raise InvalidInput(f"More than {MAX_STREAMS} streams on one connection.", cure="Open another.")
        try:
            snapshot = await self._snapshot(stream)
        except NotFound as error:
            await self._send(Message(LiveRefusal(stream=stream, code=error.code, message=error.message)))
            return
        follower.sent[stream] = min(cursor.since, snapshot.seq)
        # Sent before any detail, as the client reads of it what it follows.
        await self._send(Message(snapshot))
        self._feed.tails.begin(stream, snapshot.seq)
        self._feed.join(stream, follower, frozenset(cursor.details if snapshot.kind == "run" else ()))
        follower.hint(stream, follower.sent[stream] + 1)

    async def write(self) -> None:
        """Whenever the follower is due, send its new events, then the newest progress and details.

        It ends when the client's key or session has ended.
        """
        follower = self.follower
        while not follower.is_refused:
            if follower.due:
                await self._catch_up(follower.due.pop())
            elif (progress := follower.take_progress()) is not None:
                await self._send(progress)
            elif follower.details:
                await self._send(follower.details.pop(next(iter(follower.details))))
            else:
                follower.is_due.clear()
                await follower.is_due.wait()

    async def _snapshot(self, stream: UUID) -> Snapshot:
        project_id, settings = self._principal.project_id, self._runtime.settings
        progress = await self._runtime.bus.progress(stream)
        shown = [progress_of(progress)] if progress is not None else []
        async with self._feed.tails.reading, self._runtime.database.transaction() as session:
            if await runs.get(session, stream, project_id=project_id) is not None:
                run = await read_run(session, stream, project_id=project_id, settings=settings)
                data = run.model_dump(mode="json", exclude={"spec", "jobs", "progress"})
                return Snapshot(stream=stream, seq=run.event_seq, kind="run", data=data, progress=shown)
            experiment = await read_experiment(session, stream, project_id=project_id, settings=settings)
            data = experiment.model_dump(mode="json")
            return Snapshot(stream=stream, seq=experiment.event_seq, kind="experiment", data=data, progress=shown)

    async def _catch_up(self, stream: UUID) -> None:
        """Send every event after the last sent one, in order."""
        follower = self.follower
        while not follower.is_refused:
            try:
                new = await self._feed.tails.after(stream, follower.sent[stream])
            except Unavailable:
                await asyncio.sleep(_RETRY_S)
                continue
            if not new:
                return
            for message in new:
                await self._send(message)
                follower.sent[stream] = message.body.seq
