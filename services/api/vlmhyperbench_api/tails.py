"""The newest events of each followed stream: read once and serialised once for all clients that follow it.

A client has no queue of events, only its cursor: it takes what follows the cursor from the stream's tail, and one that
has fallen behind the tail reads the database by itself until it has caught up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar
from uuid import UUID

from vlmhyperbench.db import events
from vlmhyperbench.db.engine import Database
from vlmhyperbench.events import Event
from vlmhyperbench.wire.base import Output
from vlmhyperbench.wire.live import LiveEvent

MAX_KEPT = 256
"""Events of a stream that are kept for its clients, and events that are read at a time."""
MAX_READERS = 4
"""Reads of the database at the same time, for all streams and again for clients that are behind their tails."""

Body = TypeVar("Body", bound=Output)


@dataclass(frozen=True)
class Message(Generic[Body]):
    """A message for clients; its text is written once for all of them."""

    body: Body

    @cached_property
    def text(self) -> str:
        """Return the message as JSON."""
        return self.body.model_dump_json()


class _Tail:
    def __init__(self, seq: int) -> None:
        self.seq = seq
        """Number of the last event that was read; the kept ones end with it, without a gap."""
        self.kept = deque[Message[LiveEvent]](maxlen=MAX_KEPT)
        self.asked = 1
        """How often a read was asked for; all requests before a read are answered by it."""
        self.answered = 0
        self.reading = asyncio.Lock()

    def add(self, messages: list[Message[LiveEvent]]) -> None:
        self.kept.extend(messages)
        self.seq = messages[-1].body.seq if messages else self.seq

    def covers(self, seq: int) -> bool:
        """Return whether all events after a number are kept."""
        return seq >= self.seq - len(self.kept)


class Tails:
    """The tails of the streams that clients of this process follow."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tails: dict[UUID, _Tail] = {}
        self._shared = asyncio.Semaphore(MAX_READERS)
        self.reading = asyncio.Semaphore(MAX_READERS)
        """Held while the database is read for one client, so that many of them leave connections to the others."""

    def begin(self, stream: UUID, seq: int) -> None:
        """Keep the events of a stream after this number, if it has no tail yet."""
        self._tails.setdefault(stream, _Tail(seq))

    def hint(self, stream: UUID, seq: int) -> None:
        """Note that a stream has events up to `seq`; which exist is read from the database."""
        tail = self._tails.get(stream)
        if tail is not None and seq > tail.seq:
            tail.asked += 1

    def forget(self, stream: UUID) -> None:
        """Forget a stream that no client follows any more."""
        self._tails.pop(stream, None)

    async def after(self, stream: UUID, seq: int) -> list[Message[LiveEvent]]:
        """Return the next events after a number, in order; none if there are none.

        Raises:
            Unavailable: the database does not answer.
        """
        tail = self._tails.setdefault(stream, _Tail(seq))
        asked = tail.asked
        async with tail.reading:
            if tail.answered < asked:
                await self._read_on(stream, tail)
        if tail.covers(seq):
            return [message for message in tail.kept if message.body.seq > seq]
        return await self._read(stream, seq, self.reading)

    async def _read_on(self, stream: UUID, tail: _Tail) -> None:
        asked, is_full = tail.asked, True
        while is_full:
            messages = await self._read(stream, tail.seq, self._shared)
            tail.add(messages)
            is_full = len(messages) == MAX_KEPT
        tail.answered = asked

    async def _read(self, stream: UUID, seq: int, reading: asyncio.Semaphore) -> list[Message[LiveEvent]]:
        async with reading, self._database.transaction() as session:
            found = await events.after(session, stream, seq, limit=MAX_KEPT)
        envelopes = [Event.model_validate(event).model_dump(mode="json") for event in found]
        return [Message(LiveEvent(stream=stream, seq=envelope["seq"], event=envelope)) for envelope in envelopes]
