"""Followers of one stream share one read of the database; who is behind reads by itself and misses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from tests.support.builders import add_run
from vlmhyperbench.db import events
from vlmhyperbench.db.engine import Database
from vlmhyperbench_api.tails import MAX_KEPT, Tails

pytestmark = pytest.mark.anyio


@contextmanager
def _reads() -> Iterator[list[str]]:
    """Note the statements of this process that read events."""
    statements: list[str] = []

    def note(*given: object) -> None:
        if "FROM event" in str(given[2]):
            statements.append(str(given[2]))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", note)


async def _add_run(database: Database) -> UUID:
    async with database.transaction() as session:
        return (await add_run(session)).id


async def _append(database: Database, stream: UUID, count: int) -> int:
    seq = 0
    async with database.transaction() as session:
        for _ in range(count):
            seq = await events.append(session, stream_id=stream, type="alert.raised", data={})
    return seq


async def _numbers(tails: Tails, stream: UUID, seq: int) -> list[int]:
    return [message.body.seq for message in await tails.after(stream, seq)]


async def test_a_hundred_followers_read_new_events_once_and_send_the_same_text(database: Database) -> None:
    stream, tails = await _add_run(database), Tails(database)
    assert await _numbers(tails, stream, 1) == []
    tails.hint(stream, await _append(database, stream, 3))
    with _reads() as statements:
        taken = await asyncio.gather(*(tails.after(stream, 1) for _ in range(100)))
    assert len(statements) == 1
    assert [message.body.seq for message in taken[0]] == [2, 3, 4]
    assert {id(message.text) for messages in taken for message in messages} == {
        id(message.text) for message in taken[0]
    }
    with _reads() as statements:
        assert await _numbers(tails, stream, 2) == [3, 4]
        tails.hint(stream, 4)
        assert await _numbers(tails, stream, 4) == []
    assert statements == []


async def test_a_follower_behind_what_is_kept_catches_up_from_the_database(database: Database) -> None:
    stream, tails = await _add_run(database), Tails(database)
    tails.begin(stream, 1)
    newest = await _append(database, stream, MAX_KEPT + 10)
    assert (await _numbers(tails, stream, newest - 1)) == [newest]
    seen: list[int] = []
    while page := await _numbers(tails, stream, seen[-1] if seen else 0):
        seen += page
    assert seen == list(range(1, newest + 1))


async def test_a_hint_ahead_of_the_database_does_no_harm(database: Database) -> None:
    stream, tails = await _add_run(database), Tails(database)
    tails.begin(stream, 1)
    tails.hint(stream, 1000)
    assert await _numbers(tails, stream, 1) == []
    tails.hint(stream, await _append(database, stream, 1))
    assert await _numbers(tails, stream, 1) == [2]


async def test_a_stream_that_everybody_left_is_read_anew(database: Database) -> None:
    stream, tails = await _add_run(database), Tails(database)
    assert await _numbers(tails, stream, 1) == []
    tails.forget(stream)
    await _append(database, stream, 1)
    assert await _numbers(tails, stream, 1) == [2]
