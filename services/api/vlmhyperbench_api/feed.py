"""The process's one source of notifications about streams: a Redis subscription, with polling as a fallback."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from uuid import UUID

from vlmhyperbench.bus import Detail, ProgressMade, StreamAdvanced, detail_channel
from vlmhyperbench.db import api_keys, ended_sessions, runs, tallies, waits
from vlmhyperbench.db.tallies import Tally
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.monitoring.recording import set_gauge
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.wire.live import DetailKind, LiveProgress, Progress
from vlmhyperbench_api.details import Details, LiveDetail, merge
from vlmhyperbench_api.presenting import progress_of
from vlmhyperbench_api.tails import Message, Tails

log = logging.getLogger(__name__)

POLL_S = 2.0
"""Polling interval while Redis delivers nothing, and how often it is checked whether keys are still valid."""
_POLL_ALWAYS_EVERY = 5
"""While Redis delivers messages, only every n-th poll is made; it covers single lost notifications."""


class Follower:
    """State of one connection: the last event sent per stream, streams with possible new events, unsent progress."""

    def __init__(
        self, *, key_prefix: str = "", ends_at: datetime | None = None, session_nonce: str | None = None
    ) -> None:
        self.key_prefix = key_prefix
        self.ends_at = ends_at
        """When the browser's session ends, if the client has one."""
        self.session_nonce = session_nonce
        self.is_refused = False
        """Whether the key or the session has ended: nothing more is sent."""
        self.sent: dict[UUID, int] = {}
        """Stream → sequence number of the last event that was sent."""
        self.due: set[UUID] = set()
        """Streams to read again. A hint only marks a stream; which events exist is read from the database."""
        self.progress: dict[tuple[UUID, str], Message[LiveProgress]] = {}
        """The newest unsent progress of each run and stage; older progress is dropped."""
        self.kinds: dict[UUID, frozenset[DetailKind]] = {}
        """Stream → kinds of details that the client wants."""
        self.details: dict[tuple[UUID, str], Message[LiveDetail]] = {}
        """The unsent details of each run and kind."""
        self.is_due = asyncio.Event()

    def hint(self, stream: UUID, seq: int) -> None:
        """Note that a stream has events up to `seq`."""
        if seq > self.sent.get(stream, 0):
            self.due.add(stream)
            self.is_due.set()

    def add_progress(self, message: Message[LiveProgress]) -> None:
        """Keep the newest progress until it is sent."""
        key = (message.body.stream, message.body.progress.stage)
        self.progress.pop(key, None)  # the stage that moved last is sent last, and is what the client shows
        self.progress[key] = message
        self.is_due.set()

    def take_progress(self) -> Message[LiveProgress] | None:
        """Return the unsent progress that is the oldest; None without any."""
        return self.progress.pop(next(iter(self.progress))) if self.progress else None

    def add_detail(self, message: Message[LiveDetail]) -> None:
        """Keep a detail that the client wants until it is sent, with those of its kind that wait."""
        key = (message.body.stream, message.body.type)
        if message.body.type in self.kinds.get(message.body.stream, frozenset()):
            waiting = self.details.get(key)
            self.details[key] = message if waiting is None else Message(merge(waiting.body, message.body))
            self.is_due.set()

    def refuse(self) -> None:
        """Send nothing more."""
        self.is_refused = True
        self.is_due.set()


class Feed:
    """Distributes notifications to all followers of the process."""

    def __init__(self, runtime: Runtime, *, poll_s: float = POLL_S) -> None:
        self._runtime = runtime
        self._poll_s = poll_s
        self._followers: dict[UUID, set[Follower]] = {}
        self._connected: set[Follower] = set()
        self._heard_at = 0.0
        self._details = Details()
        self.tails = Tails(runtime.database)
        self._shown: dict[UUID, int] = {}
        self._waits: dict[UUID, str] = {}

    async def run(self) -> None:
        """Subscribe and poll until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen())
            group.create_task(self._poll())

    @contextmanager
    def following(self, follower: Follower) -> Iterator[None]:
        """Remove a follower from its streams when the block, and with it the connection, ends."""
        self._connected.add(follower)
        set_gauge("live_connections", len(self._connected))
        try:
            yield
        finally:
            self._connected.discard(follower)
            set_gauge("live_connections", len(self._connected))
            for stream in follower.sent:
                self._leave(stream, follower)

    def join(self, stream: UUID, follower: Follower, kinds: frozenset[DetailKind] = frozenset()) -> None:
        """Add a follower to a stream, with the kinds of details that it wants from now on."""
        self._followers.setdefault(stream, set()).add(follower)
        had, follower.kinds[stream] = follower.kinds.get(stream, frozenset()), kinds
        recent = self._details.recent(stream)
        if recent is not None and "logs" in kinds - had:
            follower.add_detail(Message(recent))

    def _channels(self) -> frozenset[str]:
        """Return the channels of the details that clients want now."""
        return frozenset(
            detail_channel(stream, kind)
            for stream, followers in self._followers.items()
            for follower in followers
            for kind in follower.kinds.get(stream, ())
        )

    def _leave(self, stream: UUID, follower: Follower) -> None:
        followers = self._followers.get(stream, set())
        followers.discard(follower)
        if not followers:
            self._followers.pop(stream, None)
            self._shown.pop(stream, None)
            self._waits.pop(stream, None)
            self.tails.forget(stream)
        if not any("logs" in follower.kinds.get(stream, ()) for follower in followers):
            self._details.forget(stream)

    async def _listen(self) -> None:
        async for message in self._runtime.bus.subscribe(self._channels):
            self._heard_at = time.monotonic()
            match message:
                case StreamAdvanced(stream_id=stream, seq=seq):
                    self._hint(stream, seq)
                case ProgressMade(progress=progress):
                    self._send_progress(progress_of(progress))
                case _:
                    self._send_detail(message)

    async def _poll(self) -> None:
        for count in itertools.count(1):
            await asyncio.sleep(self._poll_s)
            is_silent = time.monotonic() - self._heard_at >= self._poll_s
            if not self._connected:
                continue
            try:
                await self._check_keys()
                await self._poll_waits(list(self._followers))
                if is_silent or count % _POLL_ALWAYS_EVERY == 0:
                    await self._poll_events(list(self._followers))
            except Unavailable as error:
                log.warning("The live feed cannot poll for events: %s", error)

    async def _check_keys(self) -> None:
        """End the connections whose key was revoked or has ended, and those of sessions that are over."""
        prefixes = {follower.key_prefix for follower in self._connected}
        nonces = {follower.session_nonce for follower in self._connected if follower.session_nonce is not None}
        async with self._runtime.database.transaction() as session:
            valid = await api_keys.valid_among(session, prefixes)
            ended = await ended_sessions.ended_among(session, nonces) if nonces else frozenset()
        now = datetime.now(UTC)
        for follower in self._connected:
            is_over = follower.ends_at is not None and follower.ends_at <= now
            if is_over or follower.key_prefix not in valid or follower.session_nonce in ended:
                follower.refuse()

    async def _poll_events(self, streams: list[UUID]) -> None:
        async with self._runtime.database.transaction() as session:
            heads = await tallies.heads(session, streams)
            counts = await tallies.of_runs(session, [stream for stream, head in heads.items() if head.is_open])
        for stream, head in heads.items():
            self._hint(stream, head.seq)
        for run_id, tally in counts.items():
            if self._shown.get(run_id) != tally.done:
                self._shown[run_id] = tally.done
                total = heads[run_id].total
                waits_for = self._waits.get(run_id) or None
                self._send_progress(_counted(run_id, tally, total, stage="inference", waits_for=waits_for))

    async def _poll_waits(self, streams: list[UUID]) -> None:
        """Send what runs wait for when it has changed or ended, since no event reports it."""
        async with self._runtime.database.transaction() as session:
            open_runs = await runs.of_ids(session, streams)
            waiting = await waits.of_runs(session, open_runs, self._runtime.settings)
            counts = await tallies.of_runs(session, [run.id for run in open_runs])
        for run in open_runs:
            wait = waiting.get(run.id)
            message = wait.message if wait is not None and wait.code != "scheduler" else ""  # that wait ends by itself
            if self._waits.get(run.id, "") != message:
                stage, tally = "waiting" if message else "inference", counts.get(run.id, Tally())
                self._send_progress(_counted(run.id, tally, run.total, stage=stage, waits_for=message or None))
            self._waits[run.id] = message

    def _hint(self, stream: UUID, seq: int) -> None:
        self.tails.hint(stream, seq)
        for follower in self._followers.get(stream, ()):
            follower.hint(stream, seq)

    def _send_detail(self, detail: Detail) -> None:
        taken = self._details.take(detail)
        if taken is not None:
            message = Message(taken)
            for follower in self._followers.get(taken.stream, ()):
                follower.add_detail(message)

    def _send_progress(self, progress: Progress) -> None:
        message = Message(LiveProgress(stream=progress.run_id, progress=progress))
        for follower in self._followers.get(progress.run_id, ()):
            follower.add_progress(message)


def _counted(run_id: UUID, tally: Tally, total: int | None, *, stage: str, waits_for: str | None) -> Progress:
    return Progress(run_id=run_id, stage=stage, done=tally.done, total=total, failed=tally.failed, waits_for=waits_for)
