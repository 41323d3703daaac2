from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import SecretStr
from sqlalchemy import update
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.api.conftest import Served, serving
from tests.api.sample_runs import answered_run
from tests.support.builders import add_run
from tests.support.processes import PATIENCE_S, eventually
from vlmhyperbench.bus import Bus, Progress
from vlmhyperbench.db import events, runs
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import JobRow
from vlmhyperbench.domain.api_keys import prefix_of
from vlmhyperbench.settings import Settings
from vlmhyperbench.wire.live import UNAUTHORISED, LiveProgress
from vlmhyperbench.wire.live import Progress as Shown
from vlmhyperbench_api import live
from vlmhyperbench_api.feed import Feed, Follower
from vlmhyperbench_api.live import Connection
from vlmhyperbench_api.security import Principal
from vlmhyperbench_api.tails import Message

pytestmark = pytest.mark.anyio


async def _follow(api: Served, **since: int) -> ClientConnection:
    socket = await connect(api.live_url, additional_headers={"X-API-Key": api.key}, proxy=None)
    cursors = [{"stream": stream, "since": seq} for stream, seq in since.items()]
    await socket.send(json.dumps({"subscribe": cursors}))
    return socket


async def _next(socket: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        return json.loads(await socket.recv())


async def _read_on(socket: ClientConnection) -> None:
    """Read until the server closes the connection."""
    while True:
        await _next(socket)


async def _events(socket: ClientConnection, count: int) -> list[int]:
    seqs: list[int] = []
    while len(seqs) < count:
        message = await _next(socket)
        if message["type"] == "event":
            assert message["event"]["seq"] == message["seq"]
            seqs.append(message["seq"])
    return seqs


async def _add_run(database: Database) -> str:
    async with database.transaction() as session:
        return str((await add_run(session)).id)


async def _append(database: Database, stream: str, count: int = 1) -> int:
    seq = 0
    for _ in range(count):
        async with database.transaction() as session:
            seq = await events.append(session, stream_id=UUID(stream), type="alert.raised", data={})
    return seq


@pytest.fixture
async def bus(redis_url: str) -> AsyncIterator[Bus]:
    opened = Bus(redis_url)
    yield opened
    await opened.close()


async def test_a_follower_gets_a_snapshot_then_every_event_after_its_cursor(api: Served) -> None:
    run_id = await _add_run(api.database)
    await _append(api.database, run_id, 4)
    async with await _follow(api, **{run_id: 2}) as socket:
        snapshot = await _next(socket)
        assert (snapshot["type"], snapshot["kind"], snapshot["seq"]) == ("snapshot", "run", 5)
        assert snapshot["data"]["state"] == "QUEUED"
        assert await _events(socket, 3) == [3, 4, 5]


async def test_events_that_are_published_arrive_in_order_and_once(api: Served, bus: Bus) -> None:
    run_id = await _add_run(api.database)
    async with await _follow(api, **{run_id: 1}) as socket:
        await _next(socket)
        for _ in range(5):
            seq = await _append(api.database, run_id)
            await bus.publish(UUID(run_id), seq)
            await bus.publish(UUID(run_id), seq)
        assert await _events(socket, 5) == [2, 3, 4, 5, 6]


async def test_a_lost_notification_is_covered_by_the_next_one(api: Served, bus: Bus) -> None:
    run_id = await _add_run(api.database)
    async with await _follow(api, **{run_id: 1}) as socket:
        await _next(socket)
        await bus.publish(UUID(run_id), await _append(api.database, run_id, 3))
        assert await _events(socket, 3) == [2, 3, 4]


async def test_a_notification_ahead_of_the_database_does_no_harm(api: Served, bus: Bus) -> None:
    run_id = await _add_run(api.database)
    async with await _follow(api, **{run_id: 1}) as socket:
        await _next(socket)
        await bus.publish(UUID(run_id), 1000)
        await bus.publish(UUID(run_id), await _append(api.database, run_id))
        assert await _events(socket, 1) == [2]


async def test_without_redis_events_are_found_by_polling(settings: Settings, database: Database) -> None:
    nobody = settings.model_copy(update={"redis_url": SecretStr("redis://127.0.0.1:9/0")})
    async with serving(nobody, database) as api:
        run_id = await _add_run(database)
        async with await _follow(api, **{run_id: 1}) as socket:
            await _next(socket)
            await _append(database, run_id, 2)
            assert await _events(socket, 2) == [2, 3]


async def test_a_client_that_reconnects_gets_each_event_exactly_once(api: Served, bus: Bus) -> None:
    run_id = await _add_run(api.database)
    seen: list[int] = []
    for _ in range(3):
        async with await _follow(api, **{run_id: seen[-1] if seen else 0}) as socket:
            await bus.publish(UUID(run_id), await _append(api.database, run_id, 2))
            seen += await _events(socket, 3 if not seen else 2)
    assert seen == list(range(1, 8))


async def test_one_socket_follows_many_streams_each_with_its_cursor(api: Served) -> None:
    first, second = await _add_run(api.database), await _add_run(api.database)
    await _append(api.database, second, 2)
    async with await _follow(api, **{first: 0, second: 2}) as socket:
        result = set()
        while len(result) < 2:
            message = await _next(socket)
            if message["type"] == "event":
                result.add((message["stream"], message["seq"]))
        assert result == {(first, 1), (second, 3)}


async def test_an_experiment_is_followed_like_a_run(api: Served) -> None:
    experiment = (await api.http.post("/experiments", json={"experiment": "demo"})).json()
    async with await _follow(api, **{experiment["id"]: 0}) as socket:
        snapshot = await _next(socket)
        assert (snapshot["kind"], snapshot["data"]["state"]) == ("experiment", "OPEN")
        assert await _events(socket, 1) == [1]


async def _keep_publishing(bus: Bus, progress: Progress) -> None:
    """Publish progress until cancelled, since the bus may lose it, such as before the API has subscribed."""
    while True:
        await bus.publish_progress(progress.run_id, progress)
        await asyncio.sleep(0.05)


async def test_progress_arrives_and_the_newest_is_in_the_snapshot(api: Served, bus: Bus) -> None:
    run_id = await _add_run(api.database)
    newest = Progress(run_id=UUID(run_id), stage="inference", done=7, total=9, at="2026-01-01T00:00:00Z")

    async def is_known() -> bool:
        await bus.publish_progress(UUID(run_id), newest)
        return await bus.progress(UUID(run_id)) == newest

    await eventually(is_known, "progress is known")
    async with await _follow(api, **{run_id: 1}) as socket:
        assert (await _next(socket))["progress"][0]["done"] == 7
        publishing = asyncio.ensure_future(_keep_publishing(bus, newest.model_copy(update={"done": 8})))
        while (shown := await _next(socket))["progress"]["done"] != 8:  # 7 may be on its way still
            assert shown["type"] == "progress"
        publishing.cancel()


async def test_an_unknown_stream_is_refused_and_the_others_continue(api: Served) -> None:
    run_id, nobody = await _add_run(api.database), str(uuid4())
    async with await _follow(api, **{nobody: 0, run_id: 0}) as socket:
        refused = await _next(socket)
        assert (refused["type"], refused["stream"], refused["code"]) == ("refused", nobody, "not_found")
        assert (await _next(socket))["type"] == "snapshot"


async def test_a_run_of_another_project_is_refused_like_an_unknown_one(api: Served) -> None:
    run_id = await _add_run(api.database)
    stranger = Served(api.url, await api.add_key(project="other"), api.database, api.storage, api.http)
    async with await _follow(stranger, **{run_id: 0}) as socket:
        assert (await _next(socket))["code"] == "not_found"


@pytest.mark.parametrize("message", ["", "{", "[]", '{"subscribe": []}', '{"subscribe": [{"stream": "x"}]}', b"bytes"])
async def test_an_invalid_subscription_ends_the_connection(api: Served, message: str | bytes) -> None:
    async with connect(api.live_url, additional_headers={"X-API-Key": api.key}, proxy=None) as socket:
        await socket.send(message)
        with pytest.raises(ConnectionClosed) as closed:
            await _next(socket)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4400


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), ({"X-API-Key": "nonsense"}, 401), ({"Origin": "http://elsewhere.example"}, 403)],
)
async def test_a_client_without_permission_is_refused_before_the_handshake(
    api: Served, headers: dict[str, str], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    key = {"X-API-Key": api.key} if "Origin" in headers else {}
    with pytest.raises(InvalidStatus) as refused:
        async with connect(api.live_url, additional_headers={**key, **headers}, proxy=None):
            pass
    assert refused.value.response.status_code == status
    assert json.loads(refused.value.response.body or b"{}")["status"] == status
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_page_of_the_apis_own_origin_may_listen(api: Served) -> None:
    run_id = await _add_run(api.database)
    headers = {"X-API-Key": api.key, "Origin": api.url}
    async with connect(api.live_url, additional_headers=headers, proxy=None) as socket:
        await socket.send(json.dumps({"subscribe": [{"stream": run_id}]}))
        assert (await _next(socket))["type"] == "snapshot"


class _Deaf:
    """A client that subscribes and never reads."""

    def __init__(self, stream: str) -> None:
        self._asked = asyncio.Queue[str]()
        self._asked.put_nowait(json.dumps({"subscribe": [{"stream": stream}]}))
        self.closed: tuple[int, str] | None = None

    async def receive_text(self) -> str:
        return await self._asked.get()

    async def send_text(self, _: str) -> None:
        await asyncio.Event().wait()

    async def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)


async def test_a_client_that_does_not_read_is_closed_with_4408(
    api: Served, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vlmhyperbench.runtime import open_runtime

    deaf = _Deaf(await _add_run(api.database))
    async with open_runtime(settings) as runtime:
        principal = Principal(
            name="t", project_id="default", scopes=frozenset({"*"}), key_prefix=prefix_of(api.key) or ""
        )
        connection = Connection(deaf, runtime, Feed(runtime), principal, send_s=0.01)
        async with asyncio.timeout(PATIENCE_S):
            await connection.serve()
    assert deaf.closed is not None
    assert deaf.closed[0] == live.SLOW_CLIENT == 4408


def test_a_slow_client_gets_only_the_newest_progress() -> None:
    follower, run_id = Follower(), uuid4()
    for done in range(1000):
        progress = Shown(run_id=run_id, stage="inference", done=done)
        follower.add_progress(Message(LiveProgress(stream=run_id, progress=progress)))
    assert [message.body.progress.done for message in follower.progress.values()] == [999]


async def test_a_revoked_key_ends_its_open_connections_and_no_others(api: Served, bus: Bus) -> None:
    run_id, key = await _add_run(api.database), await api.add_key("run:read")
    revoked = Served(api.url, key, api.database, api.storage, api.http)
    async with await _follow(api, **{run_id: 1}) as other, await _follow(revoked, **{run_id: 1}) as socket:
        assert [(await _next(socket))["type"], (await _next(other))["type"]] == ["snapshot", "snapshot"]
        assert (await api.http.post(f"/keys/{prefix_of(key)}/revoke")).status_code == 200
        with pytest.raises(ConnectionClosed) as closed:
            await _next(socket)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == UNAUTHORISED == 4401
        await bus.publish(UUID(run_id), await _append(api.database, run_id))
        assert await _events(other, 1) == [2]


async def test_a_follower_gets_what_a_run_waits_for(api: Served) -> None:
    run_id = (await api.http.post("/runs", json={"run": "simulated-instant"})).json()["id"]
    async with await _follow(api, **{run_id: 1}) as socket:
        assert (await _next(socket))["type"] == "snapshot"
        shown = await _next(socket)
        assert shown["type"] == "progress"
        async with api.database.transaction() as session:
            await runs.set_paused(session, UUID(run_id), is_paused=True)
        messages = [await _next(socket) for _ in range(2)]
    assert {message["type"] for message in messages} == {"event", "progress"}
    [paused] = [message["progress"]["waits_for"] for message in messages if message["type"] == "progress"]
    assert "paused" in paused
    assert shown["progress"]["waits_for"] != paused


async def test_a_browsers_session_that_ends_closes_its_open_connections(api: Served) -> None:
    run_id = await _add_run(api.database)
    cookie = await api.ending_session(seconds=2)
    socket = await connect(api.live_url, additional_headers={"Cookie": cookie}, proxy=None)
    async with socket, await _follow(api, **{run_id: 1}) as other:
        await socket.send(json.dumps({"subscribe": [{"stream": run_id, "since": 1}]}))
        assert [(await _next(socket))["type"], (await _next(other))["type"]] == ["snapshot", "snapshot"]
        with pytest.raises(ConnectionClosed) as closed:
            await _read_on(socket)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == UNAUTHORISED
        await _append(api.database, run_id)
        assert await _events(other, 1) == [2]
    with pytest.raises(InvalidStatus) as refused:
        await connect(api.live_url, additional_headers={"Cookie": cookie}, proxy=None)
    assert refused.value.response.status_code in {401, 403}


async def test_a_run_that_waits_keeps_its_counts_and_the_end_of_its_wait_is_sent(api: Served, tmp_path: Path) -> None:
    run_id = await answered_run(api, tmp_path, ["a", "b", None], right=[True, True, False])
    await api.http.post(f"/runs/{run_id}/pause")
    await _set_jobs(api, run_id, "READY")
    async with await _follow(api, **{str(run_id): 1}) as socket:
        paused = await _progress(socket, waits=True)
        await _set_jobs(api, run_id, "RUNNING")
        running = await _progress(socket, waits=False)
    assert [(shown["done"], shown["failed"], shown["total"]) for shown in (paused, running)] == [(3, 1, 3)] * 2


async def _set_jobs(api: Served, run_id: UUID, state: str) -> None:
    job = table_of(JobRow)
    async with api.database.transaction() as session:
        await session.execute(update(job).where(job.c.run_id == run_id).values(state=state))


async def _progress(socket: ClientConnection, *, waits: bool) -> dict[str, Any]:
    while True:
        message = await _next(socket)
        if message["type"] == "progress" and (message["progress"]["waits_for"] is not None) is waits:
            progress: dict[str, Any] = message["progress"]
            return progress


def test_the_stage_that_moved_last_is_sent_last() -> None:
    follower, run_id = Follower(), uuid4()
    for stage in ("index", "inference", "index", "inference"):
        progress = Shown(run_id=run_id, stage=stage, done=1)
        follower.add_progress(Message(LiveProgress(stream=run_id, progress=progress)))
    messages = [follower.take_progress() for _ in range(3)]
    assert [message and message.body.progress.stage for message in messages] == ["index", "inference", None]
