"""The timed server: OpenAI-compatible chat over HTTP/1.1, on a bare asyncio protocol so that it sends on time.

It supports keep-alive, bodies with `Content-Length`, `Expect: 100-continue`, TCP and Unix sockets; neither chunked
request bodies (status 411) nor TLS.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from asyncio.trsock import TransportSocket
from collections.abc import Mapping
from typing import cast

from vlmhyperbench_simulated.answers import (
    PlannedAnswer,
    answer,
    answer_digest,
    fail,
    is_chosen_to_fail,
    refuse,
    request_digest,
    respond,
)
from vlmhyperbench_simulated.arrivals import listen
from vlmhyperbench_simulated.pacing import Pacer
from vlmhyperbench_simulated.record import Records, SendRecord
from vlmhyperbench_simulated.simulation import Simulation
from vlmhyperbench_simulated.timeline import Write

MAX_HEAD_BYTES = 65_536
MAX_BODY_BYTES = 256 * 1024 * 1024


class SimulatedServer:
    """A listening simulated engine; `async with await start_server(…)` closes it."""

    def __init__(self, simulation: Simulation, *, api_key: str | None = None) -> None:
        self.simulation = simulation
        self.port = 0
        """The TCP port; 0 on a Unix socket."""
        self.requests = 0
        """Number of chat requests so far."""
        self.connections = 0
        self.records = Records()
        self.arrived: Mapping[int, int] = {}
        """When the bytes of a connection's last read arrived, by descriptor; empty on a Unix socket."""
        self.tries: dict[bytes, int] = {}
        """Number of failed tries by request digest, for `recovers_after`."""
        self.ready_ns = time.monotonic_ns() + round(simulation.start_ms * 1e6)
        self.api_key = api_key
        self.pacer: Pacer
        self.server: asyncio.Server
        self.open: set[_Connection] = set()

    @property
    def url(self) -> str:
        """Base URL without `/v1`."""
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        """Stop listening and drop every connection."""
        self.server.close()
        self.pacer.close()
        for connection in list(self.open):
            connection.drop()

    async def __aenter__(self) -> SimulatedServer:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        await self.server.wait_closed()

    def is_authorized(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request has the right key, or no key is required."""
        value = headers.get("authorization", "").encode()
        return self.api_key is None or hmac.compare_digest(value, f"Bearer {self.api_key}".encode())

    def decide(self, body: bytes, digest: bytes) -> PlannedAnswer:
        """Plan the answer to the next chat request."""
        number, simulation = self.requests, self.simulation
        self.requests += 1
        try:
            request = json.loads(body)
        except (ValueError, RecursionError):
            return refuse(400, "The body is not JSON.", code="invalid_input")
        if not isinstance(request, dict) or not isinstance(request.get("messages"), list):
            return refuse(400, "The body has no messages.", code="invalid_input")
        respond_with = fail if self._fails(number, digest) else answer
        return respond_with(simulation, request, answer_digest(simulation, request, digest, number))

    def _fails(self, number: int, digest: bytes) -> bool:
        simulation = self.simulation
        if simulation.fail_every and number % simulation.fail_every == simulation.fail_every - 1:
            return True
        if not is_chosen_to_fail(digest, simulation.failure_rate):
            return False
        if simulation.recovers_after:
            tries = self.tries[digest] = self.tries.get(digest, 0) + 1
            return tries <= simulation.recovers_after
        return True

    def describe(self, method: str, path: str) -> PlannedAnswer:
        """Answer a request that is not for chat."""
        match method, path:
            case "GET", "/health":
                is_ready = time.monotonic_ns() >= self.ready_ns
                return _json(200 if is_ready else 503, {"status": "ok" if is_ready else "starting"})
            case "GET", "/v1/models":
                model = {"id": self.simulation.model, "object": "model", "created": 0, "owned_by": "simulated"}
                return _json(200, {"object": "list", "data": [model]})
            case "GET", "/props":
                shown = {name: getattr(self.simulation, name) for name in self.simulation.__slots__}
                return _json(200, {"engine": "simulated", "simulation": shown})
            case "GET", "/record":
                return _json(
                    200, {"records": [record.to_json() for record in self.records], "dropped": self.records.dropped}
                )
            case "DELETE", "/record":
                self.records.clear()
                return _json(200, {})
        return refuse(404, f"There is no {method} {path} here.", code="not_found")


async def start_server(
    simulation: Simulation,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    unix_socket: str | None = None,
    api_key: str | None = None,
) -> SimulatedServer:
    """Listen on a port, which the system chooses if it is 0.

    Raises:
        OSError: the port is in use.
    """
    loop = asyncio.get_running_loop()
    simulated = SimulatedServer(simulation, api_key=api_key)
    simulated.pacer = Pacer(loop)
    if unix_socket is not None:
        simulated.server = await loop.create_unix_server(lambda: _Connection(simulated), unix_socket, backlog=4096)
    else:
        listening = listen(host, port)
        simulated.arrived = listening.arrived
        simulated.port = listening.getsockname()[1]
        simulated.server = await loop.create_server(lambda: _Connection(simulated), sock=listening, backlog=4096)
    return simulated


class _Connection(asyncio.Protocol):
    """One connection: reads a request, sends its writes when they are due, then reads the next."""

    def __init__(self, server: SimulatedServer) -> None:
        self._server = server
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self.socket: TransportSocket
        self._is_busy = False
        self._needed = 0
        self._keeps_alive = True
        self._writes: tuple[Write, ...] = ()
        self._next = 0
        self._received_ns = 0
        self._closes = False
        self._record: SendRecord | None = None
        self._number = server.connections
        server.connections += 1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # what asyncio gives a TCP server
        self.socket = transport.get_extra_info("socket")
        self._server.open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncio's signature
        self._transport = None
        self._server.open.discard(self)

    def drop(self) -> None:
        """Close without sending the writes that are still due."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        received_ns = self._server.arrived.get(self.socket.fileno()) or time.monotonic_ns()
        self._buffer += data
        if not self._is_busy and len(self._buffer) >= self._needed:
            self._read_request(received_ns)

    def _read_request(self, received_ns: int) -> None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            self._needed = 0
            if len(self._buffer) > MAX_HEAD_BYTES:
                self._begin(refuse(431, "The headers are too long.", code="invalid_input"), received_ns, closes=True)
            return
        lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
        }
        method, _, target = lines[0].partition(" ")
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not length.isdigit() or int(length) > MAX_BODY_BYTES:
            self._begin(
                refuse(411, "Send a body with a Content-Length.", code="invalid_input"), received_ns, closes=True
            )
            return
        self._needed = end + 4 + int(length)
        if len(self._buffer) < self._needed:
            if headers.get("expect", "").lower() == "100-continue" and len(self._buffer) == end + 4 and self._transport:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return
        body = bytes(self._buffer[end + 4 : self._needed])
        del self._buffer[: self._needed]
        self._needed = 0
        self._keeps_alive = headers.get("connection", "").lower() != "close"
        self._answer(method, target.partition(" ")[0].partition("?")[0], headers, body, received_ns)

    def _answer(self, method: str, path: str, headers: dict[str, str], body: bytes, received_ns: int) -> None:
        server = self._server
        if path.startswith("/v1/") and not server.is_authorized(headers):
            self._begin(refuse(401, "The key is wrong.", code="denied"), received_ns, closes=not self._keeps_alive)
            return
        if method != "POST" or path != "/v1/chat/completions":
            self._begin(server.describe(method, path), received_ns, closes=not self._keeps_alive)
            return
        digest = request_digest(body, server.simulation.seed)
        number = server.requests
        planned = server.decide(body, digest)
        record = None
        if server.simulation.record:
            record = SendRecord(
                number=number,
                connection=self._number,
                request_id=headers.get("x-request-id"),
                body_sha256=hashlib.sha256(body).hexdigest(),
                received_ns=received_ns,
                answer=planned,
            )
            server.records.add(record)
        self._begin(planned, received_ns, closes=planned.closes or not self._keeps_alive, record=record)

    def _begin(
        self, planned: PlannedAnswer, received_ns: int, *, closes: bool, record: SendRecord | None = None
    ) -> None:
        self._is_busy = True
        self._writes, self._next, self._received_ns = planned.writes, 0, received_ns
        self._closes, self._record = closes, record
        self._send()

    def _send(self) -> None:
        """Send the writes that are due, and schedule the next one at its instant."""
        transport, writes, record, index = self._transport, self._writes, self._record, self._next
        while index < len(writes):
            if transport is None or transport.is_closing():
                return
            write = writes[index]
            due_ns = self._received_ns + write.offset_ns
            now_ns = time.monotonic_ns()
            if due_ns > now_ns:
                self._next = index
                self._server.pacer.at(due_ns, self._send)
                return
            if record is not None:
                record.write_ns.append(now_ns)
            transport.write(write.data)
            index += 1
        self._is_busy = False
        self._writes, self._record = (), None
        if transport is None:
            return
        if self._closes:
            transport.close()
        elif self._buffer:
            self._read_request(time.monotonic_ns())


def _json(status: int, value: Mapping[str, object]) -> PlannedAnswer:
    return PlannedAnswer(status=status, writes=(Write(offset_ns=0, data=respond(status, json.dumps(value).encode())),))
