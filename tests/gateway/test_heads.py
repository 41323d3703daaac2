"""A client whose request has an endless head is answered 431 and closed, and others are served."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.support.processes import PATIENCE_S
from vlmhyperbench_gateway.connections import MAX_HEAD_BYTES
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.testing.gateways import GatewayProcess


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayProcess]:
    with GatewayProcess() as process:
        yield process


def answer_to(gateway: GatewayProcess, *pieces: bytes) -> bytes:
    """Send pieces one after the other, and return all that is answered until the connection closes."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE_S) as connection:
        answered = b""
        try:
            for piece in pieces:
                connection.sendall(piece)
            while received := connection.recv(65_536):
                answered += received
        except (BrokenPipeError, ConnectionResetError):  # the rest of what was sent is not read
            pass
        return answered


def test_an_endless_head_is_refused(gateway: GatewayProcess) -> None:
    line = b"x-%05d: " + b"y" * 1000 + b"\r\n"
    lines = [line % number for number in range(MAX_HEAD_BYTES // 1000 + 5)]
    answer_to(gateway, b"GET /health HTTP/1.1\r\nhost: x\r\n", *lines)
    assert gateway.call("GET", "/health").status == 200
    answered = answer_to(gateway, b"GET /health HTTP/1.1\r\nhost: x\r\n" + b"".join(lines))
    assert answered.startswith(b"HTTP/1.1 431 ")


def test_a_long_body_is_no_long_head(gateway: GatewayProcess) -> None:
    assert gateway.load(LoadRequest(model="simulated", backend_class="simulated")).status == 200
    message = {"role": "user", "content": "page " * MAX_HEAD_BYTES}
    assert gateway.chat({"model": "simulated", "messages": [message], "max_tokens": 2}).status == 200


def test_no_request_is_no_http(gateway: GatewayProcess) -> None:
    assert answer_to(gateway, b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n").startswith(b"HTTP/1.1 400 ")
