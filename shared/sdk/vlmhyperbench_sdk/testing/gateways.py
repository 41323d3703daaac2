"""Run a gateway process and send requests to it, for tests of adapters; needs `vlmhyperbench-gateway` installed."""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, cast

from vlmhyperbench_sdk.errors import NotReady, Unavailable
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.types import JsonObject, JsonValue

KEY = "conformance-key-of-a-test"

CALL_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayResponse:
    """A response of the gateway; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, JsonValue]:
        """Parse the body as a JSON object."""
        return cast("dict[str, JsonValue]", json.loads(self.body))

    def error_code(self) -> str | None:
        """Return `error.code` if the body is an error."""
        error = self.json().get("error")
        return str(error["code"]) if isinstance(error, dict) and "code" in error else None

    def events(self) -> list[str]:
        """Return the data of each event of a stream."""
        blocks = self.body.decode().split("\n\n")
        return [block.removeprefix("data: ") for block in blocks if block.startswith("data: ")]


class GatewayProcess:
    """`with GatewayProcess() as gateway:` serves until the block ends; its port is on loopback."""

    def __init__(self, *arguments: str, env: Mapping[str, str] | None = None, key: str = KEY) -> None:
        self._arguments: Sequence[str] = arguments
        self._env = {**os.environ, **(env or {}), "VLMHB_GATEWAY_KEY": key}
        self._key = key
        self._started: subprocess.Popen[str] | None = None
        self.port = 0

    @property
    def pid(self) -> int:
        """Process id of the gateway."""
        return self._process.pid

    @property
    def _process(self) -> subprocess.Popen[str]:
        if self._started is None:
            raise NotReady("The gateway has not been started.", cure="Use it inside of a `with` block.")
        return self._started

    def call(
        self,
        method: str,
        path: str,
        body: JsonObject | bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = CALL_SECONDS,
    ) -> GatewayResponse:
        """Send a request, with the valid key unless `headers` are given."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request(method, path, data, dict(headers if headers is not None else {"X-API-Key": self._key}))
            response = connection.getresponse()
            received = {name.lower(): value for name, value in response.getheaders()}
            return GatewayResponse(status=response.status, headers=received, body=response.read())
        finally:
            connection.close()

    def load(self, request: LoadRequest) -> GatewayResponse:
        """Request a load and wait until it has ended."""
        timeout_s = request.load_timeout_s + CALL_SECONDS
        return self.call("POST", "/v1/model/load", dataclasses.asdict(request), timeout_s=timeout_s)

    def unload(self) -> GatewayResponse:
        """Request an unload and wait until it has ended."""
        return self.call("POST", "/v1/model/unload", {})

    def status(self) -> dict[str, JsonValue]:
        """Return the status of the loaded model."""
        return self.call("GET", "/v1/model/status").json()

    def chat(self, request: JsonObject) -> GatewayResponse:
        """Request a chat completion."""
        return self.call("POST", "/v1/chat/completions", request)

    def stop(self) -> int:
        """Stop the gateway in the way its worker does, and return its exit status."""
        process = self._process
        process.terminate()
        try:
            return process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def __enter__(self) -> GatewayProcess:
        argv = [sys.executable, "-m", "vlmhyperbench_gateway", *self._arguments]
        self._started = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=self._env)
        line = cast("IO[str]", self._started.stdout).readline()
        if not line:
            raise Unavailable(f"The gateway ended with status {self._started.wait()}.")
        self.port = int(json.loads(line)["port"])
        return self

    def __exit__(self, *_: object) -> None:
        if self._started is not None:
            if self._started.poll() is None:
                self.stop()
            if self._started.stdout is not None:
                self._started.stdout.close()
