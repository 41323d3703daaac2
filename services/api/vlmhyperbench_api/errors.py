"""The mapping from error classes to HTTP statuses, and the problem+json body of every error response.

    Conflict
    └── Changed                   412: the resource is not the version that the request names
    Denied
    ├── Unauthorised              401: the key is missing or not valid
    └── Forbidden                 403: the key lacks a scope
    InvalidInput
    ├── TooSlow                   408: the body does not arrive in time
    ├── TooLarge                  413: the body exceeds the size limit
    ├── UnsupportedMedia          415: the body is not JSON, or packed
    └── TooMany                   429: too many attempts of this address have failed

Domain errors are independent of HTTP; only this module knows the statuses.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import JSONResponse, Response

from vlmhyperbench.errors import (
    Conflict,
    Denied,
    InvalidInput,
    NotFound,
    NotReady,
    PluginFailure,
    Unavailable,
    VlmHyperBenchError,
    pydantic_message,
)
from vlmhyperbench.registry.cures import cure_of
from vlmhyperbench.registry.errors import field_of
from vlmhyperbench.registry.validation import problems_of
from vlmhyperbench.wire.problems import Problem, ProblemItem

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"


class Unauthorised(Denied):
    """The key is missing or not valid."""

    code = "unauthorised"


class Forbidden(Denied):
    """The key is valid but lacks the required scope."""

    code = "forbidden"


class Changed(Conflict):
    """The resource is not the version that the request names in If-Match."""

    code = "changed"


class TooLarge(InvalidInput):
    """The body exceeds the size limit."""

    code = "too_large"


class TooSlow(InvalidInput):
    """The body does not arrive in time."""

    code = "too_slow"


class UnsupportedMedia(InvalidInput):
    """The body's Content-Type is not JSON, or its Content-Encoding is not read."""

    code = "unsupported_media_type"


class TooMany(InvalidInput):
    """Too many attempts of this address have failed."""

    code = "too_many_attempts"


STATUS_OF: dict[type[VlmHyperBenchError], int] = {
    InvalidInput: 422,
    NotFound: 404,
    NotReady: 409,
    Conflict: 409,
    Changed: 412,
    Unavailable: 503,
    PluginFailure: 502,
    Denied: 401,
    Unauthorised: 401,
    Forbidden: 403,
    TooSlow: 408,
    TooLarge: 413,
    UnsupportedMedia: 415,
    TooMany: 429,
    VlmHyperBenchError: 500,
}
"""The first class of the error's method resolution order that is listed decides."""

_CLIENT_LEFT = 499
_CODE_OF_STATUS = {404: "not_found", 405: "method_not_allowed"}
_SEND_AGAIN = "Correct the fields and send it again."
_CURE_OF_STATUS = {
    404: "Check the address; docs/openapi.json lists all of them.",
    405: "docs/openapi.json says which methods an address has.",
}


def status_of(error: VlmHyperBenchError) -> int:
    """Return the HTTP status of an error."""
    return next(STATUS_OF[cls] for cls in type(error).__mro__ if cls in STATUS_OF)


def problem_of(error: VlmHyperBenchError) -> Problem:
    """Convert an error into a problem body; an error with several parts lists each of them."""
    status = status_of(error)
    parts: Sequence[object] = getattr(error, "errors", ())
    items = [_item(part) for part in parts]
    return Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        code=error.code,
        message=error.message if len(parts) < 2 else f"{len(parts)} things are wrong.",
        cure=error.cure or _cure_of_parts(items),
        errors=items,
    )


def respond(problem: Problem) -> Response:
    """Return a problem+json response."""
    headers = {"WWW-Authenticate": "X-API-Key"} if problem.status == HTTPStatus.UNAUTHORIZED else None
    return JSONResponse(problem.model_dump(mode="json"), problem.status, headers=headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Install handlers, so that every failed request gets a problem+json response."""
    app.add_exception_handler(VlmHyperBenchError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(ClientDisconnect, _on_gone)
    app.add_exception_handler(Exception, _on_surprise)


def _cure_of_parts(items: Sequence[ProblemItem]) -> str:
    return items[0].cure if len(items) == 1 else "Correct each of them." if items else ""


def _item(part: object) -> ProblemItem:
    line = getattr(part, "line", None)
    return ProblemItem(
        message=str(getattr(part, "message", part)),
        field=getattr(part, "field", None) or None,
        file=str(getattr(part, "file", "") or "") or None,
        line=line if isinstance(line, int) and line > 0 else None,
        cure=str(getattr(part, "cure", "") or ""),
    )


async def _on_error(_: HTTPConnection, error: Exception) -> Response:
    """Respond to a request, or deny a WebSocket that is not yet accepted; the framework sends either response."""
    assert isinstance(error, VlmHyperBenchError)  # noqa: S101 - `install` registers it so; Starlette's type is wider
    return respond(problem_of(error))


async def _on_gone(_: HTTPConnection, error: Exception) -> Response:
    """Handle a client that disconnected while it sent its body: no response can reach it, and no log line is needed."""
    log.debug("A client left: %s", error)
    return Response(status_code=_CLIENT_LEFT)


async def _on_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as in `_on_error`
    items = list(_items(request, error))
    first = items[0] if items else ProblemItem(message="The request is not valid.", cure=_SEND_AGAIN)
    where = f" ({first.field})" if first.field else ""
    return respond(
        Problem(
            title=HTTPStatus.UNPROCESSABLE_ENTITY.phrase,
            status=422,
            code="invalid_input",
            message=f"{first.message}{where}" if len(items) == 1 else f"{len(items)} fields are not valid.",
            cure=first.cure if len(items) == 1 and first.cure else _SEND_AGAIN,
            errors=items,
        )
    )


def _items(request: Request, error: RequestValidationError) -> Iterator[ProblemItem]:
    """Yield each error with the field as the caller wrote it, and with the nearest known name for an unknown field."""
    field = getattr(request.scope.get("route"), "body_field", None)
    model = field.field_info.annotation if field is not None else None
    in_body = [part for part in error.errors() if part["loc"][:1] == ("body",)]
    if isinstance(model, type) and issubclass(model, BaseModel):
        details = cast("list[ErrorDetails]", [{**part, "loc": tuple(part["loc"][1:])} for part in in_body])
        for problem in problems_of(model, error.body, details):
            yield ProblemItem(message=problem.message, field=field_of(("body", *problem.path)), cure=problem.cure)
    for part in error.errors():
        if part not in in_body:
            cure = cure_of(cast("ErrorDetails", part))
            yield ProblemItem(
                message=pydantic_message(part), field=".".join(str(step) for step in part["loc"]), cure=cure
            )


async def _on_http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - as in `_on_error`
    phrase = HTTPStatus(error.status_code).phrase
    code = _CODE_OF_STATUS.get(error.status_code, "invalid_input" if error.status_code < 500 else "error")
    cure = _CURE_OF_STATUS.get(error.status_code, "")
    return respond(Problem(title=phrase, status=error.status_code, code=code, message=str(error.detail), cure=cure))


async def _on_surprise(request: Request, error: Exception) -> Response:
    log.error("Unexpected error in %s %s.", request.method, request.url.path, exc_info=error)
    return respond(
        Problem(
            title=HTTPStatus.INTERNAL_SERVER_ERROR.phrase,
            status=500,
            code="unexpected",
            message="The API failed in a way that it did not foresee.",
            cure="Look at the API's log, and report it.",
        )
    )
