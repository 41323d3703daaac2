"""Bodies of registry entries: JSON or YAML by the same strict rules, kept as YAML text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Final

import yaml
from fastapi import Depends, Request
from pydantic import JsonValue

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.registry.documents import MAX_BYTES, parse_document
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench_api.bodies import parse
from vlmhyperbench_api.errors import TooLarge, UnsupportedMedia
from vlmhyperbench_api.security import Principal, requires

YAML_TYPES: Final = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})
_SHOWN: Final = "body"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryBody:
    """The parsed body of an entry."""

    text: str
    """YAML: as it was sent, or made of JSON."""
    value: dict[str, JsonValue]
    is_yaml: bool

    def refused(self, errors: RegistryErrors) -> RegistryErrors:
        """Return errors of the entry, with the lines of the body if the sender can count them."""
        if self.is_yaml:
            return RegistryErrors(replace(error, file=_SHOWN) for error in errors.errors)
        return RegistryErrors(replace(error, file=None, line=None) for error in errors.errors)


Writer = Annotated[Principal, requires("registry:write")]
"""Who may send an entry; asked before the body is read."""


async def _entry_body(request: Request, _: Writer) -> EntryBody:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    content = await request.body()
    if len(content) > MAX_BYTES:
        raise TooLarge(f"The body is larger than {MAX_BYTES} bytes.", cure="Split it into several entries.")
    if kind in YAML_TYPES:
        return _read(_decoded(content), is_yaml=True)
    if kind == "application/json" or kind.endswith("+json"):
        return body_of(parse(content))
    raise UnsupportedMedia(
        f"The body is {kind or 'of no type'}, neither JSON nor YAML.",
        cure="Send Content-Type: application/json or application/yaml.",
    )


def body_of(value: JsonValue) -> EntryBody:
    """Return parsed JSON as the body of an entry.

    Raises:
        RegistryErrors: it is no object, or holds what an entry cannot.
    """
    return _read(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), is_yaml=False)


def _read(text: str, *, is_yaml: bool) -> EntryBody:
    document, errors = parse_document(text, _SHOWN)
    if document is None:
        raise EntryBody(text=text, value={}, is_yaml=is_yaml).refused(RegistryErrors(errors))
    return EntryBody(text=text, value=document.value, is_yaml=is_yaml)


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput("The body is not UTF-8.", cure="Send YAML in UTF-8.") from error


EntryBodyOf = Annotated[EntryBody, Depends(_entry_body)]

_TASK: Final = {
    "name": "receipt-totals",
    "description": "Reads the total of a receipt",
    "dataset": "synthetic-questions",
    "prompt": "synthetic-question",
    "metrics": ["exact_match"],
}
ENTRY_BODY: Final = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"type": "object"}, "example": _TASK},
            "application/yaml": {
                "schema": {"type": "string"},
                "example": yaml.safe_dump(_TASK, sort_keys=False),
            },
        },
    }
}
"""What OpenAPI says of a body that the framework does not parse."""
PATCH_BODY: Final = {
    "requestBody": {
        "required": True,
        "content": {
            "application/merge-patch+json": {
                "schema": {"type": "object"},
                "example": {"description": "Reads totals and taxes", "metrics": ["exact_match", "anls"]},
            }
        },
    }
}
