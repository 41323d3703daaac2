from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any
from uuid import UUID

import pytest
from websockets.sync.server import ServerConnection, serve

from vlmhyperbench.client import AsyncClient, Client
from vlmhyperbench.client.live import Cursors
from vlmhyperbench.errors import Denied, InvalidInput, NotReady, Unavailable
from vlmhyperbench.wire.live import LiveEvent

pytestmark = pytest.mark.anyio
STREAM = "00000000-0000-4000-8000-000000000001"


def _event(seq: int) -> str:
    return json.dumps({"type": "event", "stream": STREAM, "seq": seq, "event": {"seq": seq}})


@contextmanager
def _server(*scripts: Callable[[ServerConnection, dict[str, Any]], None]) -> Iterator[str]:
    """Run a server that handles each connection with the next script, which receives the subscription."""
    remaining = list(scripts)

    def handle(socket: ServerConnection) -> None:
        remaining.pop(0)(socket, json.loads(socket.recv()))

    with serve(handle, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()


def _seqs(messages: Iterator[Any], count: int) -> list[int]:
    return [message.seq for message in islice(messages, count) if isinstance(message, LiveEvent)]


def test_after_a_broken_connection_the_feed_continues_with_the_next_event() -> None:
    def first(socket: ServerConnection, asked: dict[str, Any]) -> None:
        assert asked == {"subscribe": [{"stream": STREAM, "since": 3, "with": []}]}
        for seq in (4, 5):
            socket.send(_event(seq))
        socket.close(4408, "slow")

    def second(socket: ServerConnection, asked: dict[str, Any]) -> None:
        assert asked == {"subscribe": [{"stream": STREAM, "since": 5, "with": []}]}
        for seq in (5, 6):
            socket.send(_event(seq))

    with _server(first, second) as url, Client(url, "k") as client:
        assert _seqs(client.live([STREAM], since={STREAM: 3}), 3) == [4, 5, 6]


def test_a_skipped_event_is_recovered_by_reconnecting() -> None:
    def skipping(socket: ServerConnection, _: dict[str, Any]) -> None:
        socket.send(_event(1))
        socket.send(_event(3))

    def whole(socket: ServerConnection, asked: dict[str, Any]) -> None:
        assert asked["subscribe"][0]["since"] == 1
        for seq in (2, 3):
            socket.send(_event(seq))

    with _server(skipping, whole) as url, Client(url, "k") as client:
        assert _seqs(client.live([STREAM]), 3) == [1, 2, 3]


async def test_the_asynchronous_client_reconnects_too() -> None:
    def first(socket: ServerConnection, _: dict[str, Any]) -> None:
        socket.send(_event(1))

    def second(socket: ServerConnection, asked: dict[str, Any]) -> None:
        assert asked["subscribe"][0]["since"] == 1
        socket.send(_event(2))

    with _server(first, second) as url:
        async with AsyncClient(url, "k") as client:
            seen = []
            async for message in client.live([STREAM]):
                seen.append(message.seq)
                if len(seen) == 2:
                    break
    assert seen == [1, 2]


@pytest.mark.parametrize(("code", "kind"), [(4401, Denied), (4400, InvalidInput)])
def test_an_error_that_reconnecting_cannot_resolve_is_raised(code: int, kind: type[Exception]) -> None:
    with _server(lambda socket, _: socket.close(code, "no")) as url, Client(url, "k") as client, pytest.raises(kind):
        next(iter(client.live([STREAM])))


def test_a_feed_that_stays_unreachable_is_given_up() -> None:
    with Client("http://127.0.0.1:9", "k") as client, pytest.raises(Unavailable, match="0 s") as failed:
        next(iter(client.live([STREAM], give_up_s=0.0)))
    assert "vlmhyperbench status" in failed.value.cure


def test_an_event_that_was_seen_before_is_dropped() -> None:
    cursors = Cursors([STREAM])
    assert isinstance(cursors.accept(_event(1)), LiveEvent)
    assert cursors.accept(_event(1)) is None
    assert cursors.seen == {UUID(STREAM): 1}


def test_an_invalid_message_is_refused() -> None:
    with pytest.raises(Unavailable):
        Cursors([STREAM]).accept('{"type": "surprise"}')


def _snapshot(seq: int, **data: object) -> str:
    return json.dumps({"type": "snapshot", "stream": STREAM, "seq": seq, "kind": "run", "data": {"state": "X", **data}})


def _ending(seq: int, kind: str = "run.succeeded") -> str:
    return json.dumps({"type": "event", "stream": STREAM, "seq": seq, "event": {"type": kind}})


def _saying(*messages: str) -> Callable[[ServerConnection, dict[str, Any]], None]:
    """Send messages and keep the connection open, as the server does."""

    def script(socket: ServerConnection, _: dict[str, Any]) -> None:
        for message in messages:
            socket.send(message)
        for _ in socket:
            pass

    return script


@pytest.mark.parametrize("kind", ["run.succeeded", "run.partial", "run.failed", "run.cancelled", "experiment.done"])
def test_the_feed_ends_when_the_followed_stream_ends(kind: str) -> None:
    with _server(_saying(_snapshot(1, finished_at=None), _ending(1, kind))) as url, Client(url, "k") as client:
        assert len(list(client.live([STREAM]))) == 2


def test_the_feed_of_an_ended_stream_ends_after_its_unseen_events() -> None:
    ended = _snapshot(3, finished_at="2026-01-01T00:00:00Z")
    with (
        _server(_saying(ended), _saying(ended, _ending(2), _event(3), _event(4))) as url,
        Client(url, "k") as client,
    ):
        assert len(list(client.live([STREAM], since={STREAM: 3}))) == 1
        assert _seqs(client.live([STREAM], since={STREAM: 1}), 9) == [2, 3]


def test_a_stream_that_does_not_exist_ends_the_feed() -> None:
    refused = json.dumps({"type": "refused", "stream": STREAM, "code": "not_found", "message": "no"})
    with _server(_saying(refused)) as url, Client(url, "k") as client:
        assert len(list(client.live([STREAM]))) == 1


async def test_a_feed_that_does_not_end_in_time_raises_not_ready() -> None:
    opened = _snapshot(0, finished_at=None)
    with _server(_saying(opened), _saying(opened)) as url:
        with Client(url, "k") as client, pytest.raises(NotReady) as refused:
            list(client.live([STREAM], timeout_s=0.3))
        assert refused.value.code == "timeout"
        async with AsyncClient(url, "k") as client:
            with pytest.raises(NotReady):
                _ = [message async for message in client.live([STREAM], timeout_s=0.3)]
