"""What of a JSON Schema says where the fields of an answer are: through local references and nullable parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import unquote

from vlmhyperbench_sdk.types import JsonObject, JsonValue

_MAX_STEPS: Final = 32
"""Largest number of references after each other; a circle of them ends here."""
_OWN: Final = frozenset({"properties", "items"})


class Parts:
    """A schema with all that its parts say, each looked up once."""

    def __init__(self, root: JsonObject) -> None:
        self.root = root
        self.whole = resolved(root, root)
        self._known: dict[int, JsonObject] = {}

    def resolved(self, part: JsonValue) -> JsonObject:
        """Return what a part of the schema comes to; it lives as long as the schema."""
        known = self._known.get(id(part))
        if known is None:
            known = self._known[id(part)] = resolved(part, self.root)
        return known


def resolved(schema: JsonValue, root: JsonObject) -> JsonObject:
    """Follow local references, and the only branch of `anyOf`, `oneOf` or `allOf` that is not null.

    A schema that says itself what is in it, or that has several branches, stays as it is; one that is no object, or
    whose references lead nowhere, says nothing.
    """
    for _ in range(_MAX_STEPS):
        if not isinstance(schema, Mapping):
            return {}
        following = None if _OWN & schema.keys() else _following(schema, root)
        if following is None:
            return schema
        schema = following[0]
    return {}


def opening_of(schema: JsonObject) -> Literal["{", "["]:
    """Return the bracket with which an answer under a schema begins."""
    return opening_under(resolved(schema, schema))


def opening_under(own: JsonObject) -> Literal["{", "["]:
    """Do the same under a schema that is resolved."""
    return "[" if own.get("type") == "array" or ("items" in own and "properties" not in own) else "{"


def _following(schema: JsonObject, root: JsonObject) -> tuple[JsonValue] | None:
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _at(root, reference)
    for word in ("anyOf", "oneOf", "allOf"):
        branches = schema.get(word)
        if isinstance(branches, list):
            left = [branch for branch in branches if not (isinstance(branch, Mapping) and branch.get("type") == "null")]
            if len(left) == 1:
                return (left[0],)
    return None


def _at(root: JsonObject, reference: str) -> tuple[JsonValue] | None:
    """Return what a reference within the schema names; None where it names nothing, or something elsewhere."""
    place, *parts = reference.split("/")
    found: JsonValue = dict(root)
    for part in parts:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or name not in found:
            return None
        found = found[name]
    return (found,) if place == "#" else None
