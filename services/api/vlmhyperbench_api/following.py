"""What one client of the live feed gets: a snapshot of each stream, its events in order, the newest of all else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias
from uuid import UUID

from vlmhyperbench.db import events, runs
from vlmhyperbench.errors import InvalidInput, NotFound, Unavailable
from vlmhyperbench.events import Event
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.wire.base import Output
from vlmhyperbench.wire.live import Cursor, LiveEvent, LiveProgress, LiveRefusal, Snapshot
from vlmhyperbench_api.feed import Feed, Follower
from vlmhyperbench_api.presenting import progress_of
from vlmhyperbench_api.reading import read_experiment, read_run
from vlmhyperbench_api.security import Principal

BATCH_EVENTS = 256
MAX_STREAMS = 256
_RETRY_S = 1.0
"""Pause before a failed database query is retried."""

Send: TypeAlias = Callable[[Output], Awaitable[None]]


class Following:
    """The streams that a client follows, each by its cursor; `send` waits while the client is slow."""

    def __init__(self, runtime: Runtime, feed: Feed, principal: Principal, send: Send) -> None:
        self.follower = Follower()
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
            await self._send(LiveRefusal(stream=stream, code=error.code, message=error.message))
            return
        follower.sent[stream] = min(cursor.since, snapshot.seq)
        # Sent before any detail, as the client reads of it what it follows.
        await self._send(snapshot)
        self._feed.join(stream, follower, frozenset(cursor.details if snapshot.kind == "run" else ()))
        follower.hint(stream, follower.sent[stream] + 1)

    async def write(self) -> None:
        """Whenever the follower is due, send new events from the database, then the newest progress and details."""
        follower = self.follower
        while True:
            await follower.is_due.wait()
            follower.is_due.clear()
            while follower.due:
                await self._catch_up(follower.due.pop())
            while follower.progress:
                (stream, _), progress = follower.progress.popitem()
                await self._send(LiveProgress(stream=stream, progress=progress))
            while follower.details:
                _, detail = follower.details.popitem()
                await self._send(detail)

    async def _snapshot(self, stream: UUID) -> Snapshot:
        project_id, settings = self._principal.project_id, self._runtime.settings
        progress = await self._runtime.bus.progress(stream)
        shown = [progress_of(progress)] if progress is not None else []
        async with self._feed.reading, self._runtime.database.transaction() as session:
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
        while True:
            try:
                async with self._feed.reading, self._runtime.database.transaction() as session:
                    new_events = await events.after(session, stream, follower.sent[stream], limit=BATCH_EVENTS)
            except Unavailable:
                await asyncio.sleep(_RETRY_S)
                continue
            for event in new_events:
                envelope = Event.model_validate(event).model_dump(mode="json")
                await self._send(LiveEvent(stream=stream, seq=event.seq, event=envelope))
                follower.sent[stream] = event.seq
            if len(new_events) < BATCH_EVENTS:
                return
