"""The gateway's endpoints: a control plane for one model, a data plane that speaks OpenAI."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, cast

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from vlmhyperbench.errors import Denied, InvalidInput, NotFound, VlmHyperBenchError, pydantic_message
from vlmhyperbench_gateway.counters import Counters
from vlmhyperbench_gateway.errors import body_of, status_of
from vlmhyperbench_gateway.host import EngineHost
from vlmhyperbench_gateway.relay import CHAT_PATH, Relay, read_body
from vlmhyperbench_gateway.settings import GatewaySettings
from vlmhyperbench_sdk.gateway import LoadRequest, ModelStatus
from vlmhyperbench_sdk.jsontext import parse_object

OPEN_PATHS = frozenset({"/health"})
"""Paths that need no key."""

MAX_LOAD_BYTES = 1024 * 1024

_VARIABLE = re.compile(r"^(?!LD_|DYLD_|PYTHON)[A-Za-z_][A-Za-z0-9_]{0,127}$")


class LoadBody(BaseModel):
    """Body of `POST /v1/model/load`, checked: `vlmhyperbench_sdk.gateway.LoadRequest`."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    model: Annotated[str, Field(min_length=1, max_length=200)]
    backend_class: Annotated[str, Field(min_length=1, max_length=200)]
    files: dict[str, Annotated[str, Field(pattern=r"^/", max_length=4096)]] = {}
    engine_params: dict[str, JsonValue] = {}
    env: dict[str, Annotated[str, Field(max_length=65_536)]] = {}
    load_timeout_s: Annotated[float, Field(gt=0, le=7200)] = 300.0
    replace: bool = False

    @field_validator("env")
    @classmethod
    def _check_names(cls, env: dict[str, str]) -> dict[str, str]:
        for name in env:
            if not _VARIABLE.match(name):
                raise ValueError(f"{name[:100]!r} is not a name that an engine may be given")
        return env


def make_app(settings: GatewaySettings) -> FastAPI:
    """Create the application of one gateway; its engine ends with the application's lifespan."""
    host = EngineHost(settings)
    counters = Counters()
    relay = Relay(settings, host, counters)
    started_at = int(time.time())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with host:
            yield

    app = FastAPI(title="VLMHyperBench gateway", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.add_middleware(_KeyGuard, key=settings.key, relay=relay)
    app.add_exception_handler(VlmHyperBenchError, _answer_error)

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Answer in every state of the model."""
        return {"status": "ok", "model": host.status.state}

    @app.get("/metrics")
    async def metrics() -> PlainTextResponse:
        """Show the counters as Prometheus text."""
        return PlainTextResponse(counters.text(host.status), media_type="text/plain; version=0.0.4")

    @app.get("/v1/models")
    async def models() -> dict[str, object]:
        """List the model if it is ready."""
        status = host.status
        return {"object": "list", "data": [_describe(status, started_at)] if status.state == "ready" else []}

    @app.get("/v1/models/{name:path}")
    async def model(name: str) -> dict[str, object]:
        """Describe the model of that name, if it is ready."""
        status = host.status
        if status.state != "ready" or status.model != name:
            raise NotFound(
                f"The model {name[:200]!r} is not loaded.",
                cure="GET /v1/models lists the model that is loaded.",
                code="model_not_found",
            )
        return _describe(status, started_at)

    @app.get("/v1/model/status")
    async def status() -> JSONResponse:
        """Return which model is loaded, its URL and the identity of its engine."""
        return _show(host.status)

    @app.post("/v1/model/load")
    async def load(request: Request) -> JSONResponse:
        """Load a model; answer when it is ready, or with the reason why it is not."""
        return _show(await host.load(_parse_load(await read_body(request, MAX_LOAD_BYTES))))

    @app.post("/v1/model/unload")
    async def unload() -> JSONResponse:
        """End the engine and forget its secrets."""
        return _show(await host.unload())

    return app


class _KeyGuard:
    """Refuses requests without the key, sent as `X-API-Key` or bearer; keys are compared in constant time.

    Chat completions go straight to the relay: the application's own routing would delay their first tokens.
    """

    def __init__(self, app: ASGIApp, *, key: str, relay: Relay) -> None:
        self._app = app
        self._relay = relay
        self._digest = hashlib.sha256(key.encode()).digest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS and not self._is_right(Headers(scope=scope)):
            error = Denied("The key is missing or wrong.", cure="Send it as X-API-Key or as a bearer token.")
            response = JSONResponse(body_of(error), status_of(error), {"www-authenticate": "Bearer"})
            await response(scope, receive, send)
        elif scope["type"] == "http" and scope["method"] == "POST" and scope["path"] == CHAT_PATH:
            await self._chat(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _chat(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._relay.chat(request)
        except VlmHyperBenchError as error:
            response = await _answer_error(request, error)
        await response(scope, receive, send)

    def _is_right(self, headers: Headers) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else "")
        return hmac.compare_digest(hashlib.sha256(given.encode("latin-1")).digest(), self._digest)


def _describe(status: ModelStatus, started_at: int) -> dict[str, object]:
    return {"id": status.model, "object": "model", "created": started_at, "owned_by": status.backend_class}


def _show(status: ModelStatus) -> JSONResponse:
    return JSONResponse(dataclasses.asdict(status))


async def _answer_error(_: Request, error: Exception) -> JSONResponse:
    known = cast("VlmHyperBenchError", error)
    status = status_of(known)
    return JSONResponse(body_of(known), status, {"retry-after": "1"} if status == 429 else None)


def _parse_load(body: bytes) -> LoadRequest:
    try:
        checked = LoadBody.model_validate(parse_object(body, what="The load request"))
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in problem['loc']) or 'body'}: {pydantic_message(problem)}"
            for problem in error.errors()
        )
        cure = "Correct these fields of the load request."
        raise InvalidInput(f"The load request is malformed: {problems}.", cure=cure) from None
    return LoadRequest(**dict(checked))
