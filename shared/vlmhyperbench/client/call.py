"""A request of the client as a value: its method, path, parameters and body, and how its response is parsed."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from urllib.parse import quote
from uuid import UUID

from pydantic import BaseModel, TypeAdapter

from vlmhyperbench.client.refusals import refusal_of
from vlmhyperbench.domain.short_ids import ids_from
from vlmhyperbench.errors import NotFound

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)
Id = UUID | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request; `read` parses the body of a successful response."""

    method: str
    path: str
    read: Callable[[bytes], T]
    params: Mapping[str, str | list[str]] = field(default_factory=dict)
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    good: tuple[int, ...] = (200, 201, 202)
    prefix: str = "/api/v1"

    def answer(self, status: int, body: bytes) -> T:
        """Parse a response.

        Raises:
            VlmHyperBenchError: the API refused the request; the class says what can be done about it.
        """
        if status not in self.good:
            raise refusal_of(status, body)
        return self.read(body)


def id_text(value: Id) -> str:
    """Check an id, or the first digits of an id, before the request is sent."""
    text = str(value).strip()
    ids_from(text)
    return text


def get_call(path: str, model: type[Model]) -> Call[Model]:
    """Return a GET."""
    return Call(method="GET", path=path, read=model.model_validate_json)


def page_call(path: str, model: type[Model], **params: object) -> Call[Model]:
    """Return a GET with parameters, of which a list is sent once for each value, and None not at all."""
    given = {
        name: [str(part) for part in value] if isinstance(value, list | tuple) else str(value)
        for name, value in params.items()
        if value is not None
    }
    return Call(method="GET", path=path, read=TypeAdapter(model).validate_json, params=given)


def post_call(
    path: str, model: type[Model], body: BaseModel | None = None, idempotency_key: str | None = None
) -> Call[Model]:
    """Return a POST, with a key by which a repeated one is recognised."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": idempotency_key or str(uuid.uuid4())}
    content = body.model_dump_json(exclude_unset=True).encode() if body is not None else None
    return Call(method="POST", path=path, read=model.model_validate_json, body=content, headers=headers)


def named(text: str, what: str) -> str:
    """Return a name as a part of an address.

    Raises:
        NotFound: nothing can have this name.
    """
    if not text or "/" in text:
        raise NotFound(f"There is no {what} {text!r}.", cure=f"Give the name of a {what}, as its list shows it.")
    return quote(text, safe="")
