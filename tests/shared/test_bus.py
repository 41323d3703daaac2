from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from redis.asyncio import Redis
from redis.exceptions import TimeoutError as RedisTimeout

from tests.support.processes import PATIENCE_S
from vlmhyperbench.bus import Bus, BusMessage, Progress, ProgressMade, StreamAdvanced
from vlmhyperbench.local.valkey import Valkey
from vlmhyperbench.logs import configure_logging

pytestmark = pytest.mark.anyio


def _progress(run_id: UUID, done: int = 3) -> Progress:
    return Progress(run_id=run_id, stage="inference", done=done, total=10, at=datetime(2026, 1, 2, tzinfo=UTC))


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a call wait for Redis as long as a busy machine takes."""
    monkeypatch.setattr("vlmhyperbench.bus._CALL_S", PATIENCE_S)


@pytest.fixture
async def bus(redis_url: str, patience: None) -> AsyncIterator[Bus]:
    opened = Bus(redis_url)
    yield opened
    await opened.close()


async def _listen(bus: Bus, count: int) -> list[BusMessage]:
    heard: list[BusMessage] = []
    async with aclosing(bus.subscribe()) as messages:
        async for message in messages:
            heard.append(message)
            if len(heard) == count:
                return heard
    raise AssertionError


async def _until_someone_listens(url: str) -> None:
    async with Redis.from_url(url) as client, asyncio.timeout(PATIENCE_S):
        while not dict(await client.pubsub_numsub("vlmhb:live")).get(b"vlmhb:live"):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)


async def test_a_subscriber_receives_every_kind_of_message(bus: Bus, redis_url: str) -> None:
    run_id = uuid4()
    async with asyncio.TaskGroup() as group:
        listening = group.create_task(_listen(bus, 2))
        await _until_someone_listens(redis_url)
        await bus.publish(run_id, 7)
        await bus.publish_progress(run_id, _progress(run_id))
    assert listening.result() == [
        StreamAdvanced(stream_id=run_id, seq=7),
        ProgressMade(progress=_progress(run_id)),
    ]


async def test_an_invalid_message_is_skipped(bus: Bus, redis_url: str) -> None:
    run_id = uuid4()
    async with asyncio.TaskGroup() as group:
        listening = group.create_task(_listen(bus, 1))
        await _until_someone_listens(redis_url)
        async with Redis.from_url(redis_url) as client:
            await client.publish("vlmhb:live", b"\xff not json")
            await client.publish("vlmhb:live", b'{"kind": "other"}')
        await bus.publish(run_id, 1)
    assert listening.result() == [StreamAdvanced(stream_id=run_id, seq=1)]


async def test_only_the_newest_progress_is_kept_and_it_expires(bus: Bus, redis_url: str) -> None:
    run_id = uuid4()
    assert await bus.progress(run_id) is None
    await bus.publish_progress(run_id, _progress(run_id, 3))
    await bus.publish_progress(run_id, _progress(run_id, 4))
    kept = await bus.progress(run_id)
    assert kept is not None
    assert kept.done == 4
    async with Redis.from_url(redis_url) as client:
        assert 0 < await client.ttl(f"vlmhb:progress:{run_id}") <= 60


async def test_a_wake_up_ends_the_wait_and_several_count_as_one(bus: Bus) -> None:
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(bus.wait_wake(PATIENCE_S))
        for _ in range(100):
            await bus.push_wake()
    assert waiting.result() is True
    await bus.push_wake()
    await bus.push_wake()
    assert await bus.wait_wake(PATIENCE_S) is True
    assert await bus.wait_wake(0.01) is False


async def test_every_call_returns_while_redis_is_down(make_valkey: Callable[[], Valkey]) -> None:
    server = make_valkey()
    url = server.start()
    server.stop()
    bus = Bus(url)
    run_id = uuid4()
    await bus.publish(run_id, 1)
    await bus.publish_progress(run_id, _progress(run_id))
    await bus.push_wake()
    assert await bus.progress(run_id) is None
    assert await bus.is_up() is False
    assert await bus.wait_wake(0.2) is False
    await bus.close()


async def test_a_wait_lasts_its_time_while_redis_is_down(make_valkey: Callable[[], Valkey]) -> None:
    server = make_valkey()
    bus = Bus(server.start())
    server.stop()
    began = time.monotonic()
    assert await bus.wait_wake(0.3) is False
    assert time.monotonic() - began >= 0.3
    await bus.close()


async def test_a_subscriber_receives_messages_again_after_redis_was_down(
    make_valkey: Callable[[], Valkey], patience: None
) -> None:
    server = make_valkey()
    url = server.start()
    bus = Bus(url)
    run_id = uuid4()
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        listening = group.create_task(_listen(bus, 1))
        await _until_someone_listens(url)
        await asyncio.to_thread(server.stop)
        assert await asyncio.to_thread(server.start) == url
        await _until_someone_listens(url)
        assert await bus.is_up() is True
        await bus.publish(run_id, 2)
    assert listening.result() == [StreamAdvanced(stream_id=run_id, seq=2)]
    await bus.close()


async def test_a_redis_that_hangs_delays_one_call_shortly_and_the_next_not_at_all(
    make_valkey: Callable[[], Valkey], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlmhyperbench.bus._REST_S", PATIENCE_S)
    server = make_valkey()
    bus = Bus(server.start())
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        await bus.publish(uuid4(), 1)
        with pytest.raises(StopIteration):  # it waits for nothing
            bus.publish(uuid4(), 2).send(None)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    await bus.close()


@pytest.mark.parametrize("answer", [[], RedisTimeout("the time-out came with the cancellation")])
async def test_a_cancellation_that_the_client_of_redis_swallows_still_ends_its_task(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, answer: list[str] | Exception
) -> None:
    is_waiting = asyncio.Event()

    async def swallowing(*_: object) -> list[str]:
        is_waiting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if isinstance(answer, Exception):
                raise answer from None
        assert isinstance(answer, list)
        return answer

    monkeypatch.setattr(Redis, "pubsub_numsub", swallowing)

    async def loop() -> None:
        while True:
            await bus.listeners(uuid4())

    task = asyncio.create_task(loop())
    await is_waiting.wait()
    task.cancel()
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()


async def test_a_wrong_password_is_named_with_its_cure_and_ends_nothing(
    redis_url: str, patience: None, capsys: pytest.CaptureFixture[str]
) -> None:
    password = redis_url.split("@", maxsplit=1)[0].split(":")[-1]
    configure_logging("test", form="json")
    bus = Bus(redis_url.replace(password, "guess"))
    await bus.push_wake()
    assert not await bus.is_up()
    await bus.close()
    [line] = [line for line in capsys.readouterr().err.splitlines() if '"bus.' in line]
    assert ('"bus.refused"' in line, "Correct the account in VLMHB_REDIS_URL" in line, "guess" in line) == (
        True,
        True,
        False,
    )
