"""Strict parsing of JSON bodies: refuses what pydantic does not see or the database cannot store.

Covered: duplicate keys, NaN and infinities, integers beyond 64 bits, nesting beyond 32 levels, NUL and lone surrogates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import JsonValue

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench_api.errors import UnsupportedMedia
from vlmhyperbench_sdk.jsontext import json_problem

MAX_DEPTH = 32
_INT64 = 2**63
_DIGITS = 20


class StrictRoute(APIRoute):
    """A route that validates its JSON body before the framework parses it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def checked(request: Request) -> Response:
            if self.body_field is not None and (body := await request.body()):
                _check_media_type(request.headers.get("content-type", ""))
                parse(body)
            return await handle(request)

        return checked


def _check_media_type(given: str) -> None:
    kind = given.partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise UnsupportedMedia(
            f"The body is {kind or 'of no type'}, not JSON.", cure="Send Content-Type: application/json."
        )


def parse(body: bytes) -> JsonValue:
    """Parse a JSON body and refuse everything that this module's docstring lists.

    Raises:
        InvalidInput: it is not JSON, or holds something that is refused; the message says where.
    """
    try:
        value: JsonValue = json.loads(
            body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_int=_integer
        )
    except UnicodeDecodeError as error:
        raise InvalidInput("The body is not UTF-8.", cure="Send JSON in UTF-8.") from error
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        raise InvalidInput(f"The body is not JSON: {json_problem(error)}.", cure="Send one JSON object.") from error
    _check(value, "body", 0)
    return value


def check_text(text: str, where: str) -> None:
    """Refuse text that neither a database column nor a UTF-8 file can hold.

    Raises:
        InvalidInput: it has a NUL or a lone surrogate.
    """
    if "\x00" in text:
        raise InvalidInput(f"{where} contains a NUL character.", cure="Remove it.")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidInput(f"{where} contains a lone surrogate.", cure="Send well-formed Unicode.")


def _check(value: JsonValue, where: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise _too_deep()
    match value:
        case str():
            check_text(value, where)
        case float():
            if value in (float("inf"), float("-inf")):
                raise InvalidInput(f"{where} is not a finite number.", cure="Send a finite number.")
        case list():
            for index, part in enumerate(value):
                _check(part, f"{where}.{index}", depth + 1)
        case dict():
            for key, part in value.items():
                check_text(key, f"A key of {where}")
                _check(part, f"{where}.{key}", depth + 1)


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members: dict[str, JsonValue] = {}
    for key, value in pairs:
        if key in members:
            raise InvalidInput(f"The key {key[:100]!r} appears twice in one object.", cure="Keep one of the two.")
        members[key] = value
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidInput(f"{name} is not JSON.", cure="Send finite numbers, or null.")


def _integer(text: str) -> int:
    if len(text) > _DIGITS or not -_INT64 <= int(text) < _INT64:
        raise InvalidInput(f"The integer {text[:_DIGITS]}… is beyond 64 bits.", cure="Send a smaller number.")
    return int(text)


def _too_deep() -> InvalidInput:
    return InvalidInput(f"The body is nested deeper than {MAX_DEPTH} levels.", cure="Flatten it.")
