"""A gateway under test, as the checks of the conformance suite see it: OpenAI's client, and the control API."""

from __future__ import annotations

import importlib
import json
import os
import urllib.request
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from vlmhyperbench_sdk.errors import NotFound, Unavailable
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.types import JsonObject, JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayUnderTest:
    """A running gateway, and what the checks need to know of it."""

    url: str
    """Base URL without `/v1`."""
    key: str = field(repr=False)
    load: LoadRequest | None = None
    """The request with which the model is loaded again; without it, unload and reload are not checked."""
    max_in_flight: int = 512
    """The gateway's limit of requests."""
    max_tokens: int = 16
    context_tokens: int | None = None
    """Context of the model; without it, the over-long input has a million words."""
    timeout_s: float = 120.0
    """Limit of one request."""


class CheckFailed(Exception):
    """The gateway or its engine does not do what the check asks for; the message says what it did."""


class RefusedByName(Exception):
    """The engine says that it cannot do what the check asks for, and names it."""


class CheckNotRun(Exception):
    """The suite lacks an input of the check."""


class Session:
    """One gateway under test: its control API, and OpenAI's client for everything else."""

    def __init__(self, target: GatewayUnderTest) -> None:
        """Connect OpenAI's client; it repeats nothing by itself.

        Raises:
            NotFound: the client is not installed.
        """
        self.target = target
        self.openai = _client_library()
        options = {"api_key": target.key, "max_retries": 0, "timeout": target.timeout_s}
        self.client = self.openai.OpenAI(base_url=f"{target.url}/v1", **options)
        self.status = self.control("GET", "/v1/model/status")

    @property
    def model(self) -> str:
        """The served name."""
        return str(self.status["model"])

    @property
    def engine(self) -> Mapping[str, JsonValue]:
        """The identity of the engine; empty without one."""
        engine = self.status.get("engine")
        return engine if isinstance(engine, Mapping) else {}

    def asynchronous(self) -> Any:
        """Return a client for many requests at once; use it with `async with`."""
        target = self.target
        return self.openai.AsyncOpenAI(
            base_url=f"{target.url}/v1", api_key=target.key, max_retries=0, timeout=target.timeout_s
        )

    def request(self, content: JsonValue = "Hello", **more: Any) -> dict[str, Any]:
        """Return the arguments of a small request at temperature 0."""
        messages = [{"role": "user", "content": content}]
        small = {"model": self.model, "messages": messages, "max_tokens": self.target.max_tokens, "temperature": 0}
        return {**small, **more}

    def ask(self, content: JsonValue = "Hello", **more: Any) -> Any:
        """Return the client's answer to a small request."""
        return self.client.chat.completions.create(**self.request(content, **more))

    def text(self, content: JsonValue = "Hello", **more: Any) -> str:
        """Return the text of an answer."""
        return str(self.ask(content, **more).choices[0].message.content or "")

    def ask_unless_refused(self, word: str, content: JsonValue = "Hello", **more: Any) -> Any:
        """Return the client's answer to a request that an engine may refuse by naming `word`.

        Raises:
            RefusedByName: it does.
        """
        try:
            return self.ask(content, **more)
        except self.openai.APIStatusError as error:
            if 400 <= error.status_code <= 501 and word.lower() in str(error.message).lower():
                raise RefusedByName(f"HTTP {error.status_code}: {str(error.message)[:300]}") from error
            raise

    def control(self, method: str, path: str, body: JsonObject | None = None) -> dict[str, JsonValue]:
        """Call the gateway's control API.

        Raises:
            Unavailable: it does not answer, or with an error.
        """
        answered: dict[str, JsonValue] = json.loads(self.read(method, path, body))
        return answered

    def read(self, method: str, path: str, body: JsonObject | None = None) -> bytes:
        """Return the body of an answer of the gateway.

        Raises:
            Unavailable: it does not answer, or with an error.
        """
        data = None if body is None else json.dumps(body).encode()
        url, headers = self.target.url + path, {"X-API-Key": self.target.key}
        call = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 - the caller's own gateway
        try:
            with urllib.request.urlopen(call, timeout=self._control_s) as response:  # noqa: S310 - see above
                content: bytes = response.read()
                return content
        except OSError as error:
            raise Unavailable(f"The gateway at {self.target.url} does not answer {path}: {error}.") from error

    def load_again(self) -> None:
        """Load the model again.

        Raises:
            Unavailable: the load fails.
        """
        if self.target.load is not None:
            self.status = self.control("POST", "/v1/model/load", asdict(replace(self.target.load, replace=True)))

    @property
    def _control_s(self) -> float:
        load = self.target.load
        return self.target.timeout_s + (load.load_timeout_s if load is not None else 0.0)


def is_running(pid: object) -> bool:
    """Return whether a process of this machine runs; False for anything that is no process id."""
    if not isinstance(pid, int):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is another user's
        return True
    return True


def _client_library() -> Any:
    try:
        return importlib.import_module("openai")
    except ImportError as error:
        raise NotFound(
            "The conformance suite needs OpenAI's Python client, which is not installed.",
            cure="Install vlmhyperbench-sdk[conformance].",
            code="not_installed",
        ) from error
