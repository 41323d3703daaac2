"""The live feed as server-sent events: the same messages as on the WebSocket, and `id` is the cursor."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest

from tests.api.conftest import Served
from tests.support.builders import add_run
from tests.support.processes import PATIENCE_S, eventually
from vlmhyperbench.bus import Bus, LinesLogged, LogLine
from vlmhyperbench.db import events
from vlmhyperbench.domain.api_keys import prefix_of

pytestmark = pytest.mark.anyio


class Stream:
    """A reader of server-sent events as `EventSource` reads them."""

    def __init__(self, response: httpx2.Response) -> None:
        self.last_id = ""
        self._lines = response.aiter_lines()

    async def next(self, kind: str | None = None) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            async for line in self._lines:
                name, _, value = line.partition(": ")
                if name == "id":
                    self.last_id = value
                if name == "data":
                    message: dict[str, Any] = json.loads(value)
                    if kind in (None, message["type"]):
                        return message
        raise AssertionError("The stream has ended.")

    async def rest(self) -> list[str]:
        """Return the kinds of the messages until the server ends the stream."""
        fields = [line.partition(": ") async for line in self._lines]
        return [json.loads(value)["type"] for name, _, value in fields if name == "data"]


@asynccontextmanager
async def _follow(
    api: Served, stream: str, since: int = 0, details: str | None = None, headers: dict[str, str] | None = None
) -> AsyncIterator[Stream]:
    params = {"stream": stream, "since": str(since), **({"with": details} if details else {})}
    async with api.http.stream("GET", "/live", params=params, headers=headers or {}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Stream(response)


async def _add_run(api: Served, further: int = 0) -> str:
    async with api.database.transaction() as session:
        run = await add_run(session)
    for _ in range(further):
        await _append(api, str(run.id))
    return str(run.id)


async def _append(api: Served, stream: str) -> None:
    async with api.database.transaction() as session:
        await events.append(session, stream_id=UUID(stream), type="alert.raised", data={})


async def test_a_client_gets_a_snapshot_then_every_event_after_its_cursor(api: Served) -> None:
    run_id = await _add_run(api, 3)
    async with _follow(api, run_id, 2) as stream:
        snapshot = await stream.next()
        assert (snapshot["type"], snapshot["seq"], stream.last_id) == ("snapshot", 4, "")
        assert [(await stream.next("event"))["seq"], stream.last_id] == [3, "3"]
        assert [(await stream.next("event"))["seq"], stream.last_id] == [4, "4"]


async def test_a_client_that_comes_back_with_its_last_event_id_misses_and_repeats_nothing(api: Served) -> None:
    run_id = await _add_run(api, 1)
    seen: list[int] = []
    headers: dict[str, str] = {}
    for _ in range(3):
        async with _follow(api, run_id, headers=headers) as stream:
            for _ in range(2 if not seen else 1):
                seen.append((await stream.next("event"))["seq"])
            headers = {"Last-Event-ID": stream.last_id}
        await _append(api, run_id)
    assert seen == [1, 2, 3, 4]


async def test_details_arrive_by_events_too(api: Served, redis_url: str) -> None:
    run_id = await _add_run(api)
    bus = Bus(redis_url)

    async def is_heard() -> bool:
        return "logs" in await bus.listeners(UUID(run_id))

    async with _follow(api, run_id, details="samples,logs") as stream:
        await eventually(is_heard, "the API listens to logs")
        line = LogLine(source="worker", no=0, text="hello")
        await bus.publish_detail(LinesLogged(run_id=UUID(run_id), claim_id=uuid4(), lines=[line]))
        assert (await stream.next("logs"))["lines"] == [{"source": "worker", "text": "hello"}]
    await bus.close()


async def test_a_revoked_key_ends_its_open_stream(api: Served) -> None:
    run_id, key = await _add_run(api), await api.add_key("run:read")
    async with _follow(api, run_id, headers={"X-API-Key": key}) as stream:
        assert (await stream.next())["type"] == "snapshot"
        assert (await api.http.post(f"/keys/{prefix_of(key)}/revoke")).status_code == 200
        async with asyncio.timeout(PATIENCE_S):
            assert await stream.rest() == ["event"]
    assert (await api.http.get("/live", params={"stream": run_id}, headers={"X-API-Key": key})).status_code == 401


async def test_an_unknown_stream_is_an_ordinary_404(api: Served) -> None:
    answer = await api.http.get("/live", params={"stream": str(uuid4())})
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("params", [{}, {"stream": "x y"}, {"since": "-1"}, {"since": "1.5"}, {"with": "secrets"}])
async def test_a_wrong_parameter_is_refused(api: Served, params: dict[str, str]) -> None:
    stream = {} if not params else {"stream": await _add_run(api)}
    assert (await api.http.get("/live", params={**stream, **params})).status_code == 422


async def test_nobody_follows_without_a_key(api: Served) -> None:
    run_id = await _add_run(api)
    async with httpx2.AsyncClient(base_url=f"{api.url}/api/v1", trust_env=False) as nobody:
        assert (await nobody.get("/live", params={"stream": run_id})).status_code == 401


async def test_a_browsers_session_that_ends_ends_its_open_stream(api: Served) -> None:
    run_id = await _add_run(api)
    cookie = {"Cookie": await api.ending_session(seconds=2)}
    async with httpx2.AsyncClient(base_url=f"{api.url}/api/v1", trust_env=False, timeout=PATIENCE_S) as browser:
        params = {"stream": run_id, "since": "0"}
        async with browser.stream("GET", "/live", params=params, headers=cookie) as response:
            stream = Stream(response)
            assert (await stream.next())["type"] == "snapshot"
            async with asyncio.timeout(PATIENCE_S):
                assert "snapshot" not in await stream.rest()
        assert (await browser.get("/live", params=params, headers=cookie)).status_code == 401
