"""Compile untrusted JSON Schemas: draft 2020-12 only, references inside the document only, bounded time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.jsontext import parse_json
from vlmhyperbench_sdk.types import JsonValue
from vlmhyperbench_structure_metrics.keywords import SafeValidator, bounded_run
from vlmhyperbench_structure_metrics.patterns import finds

DIALECT = "https://json-schema.org/draft/2020-12/schema"
INVALID = "invalid_schema"

_ONE = (
    "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_LISTS = "allOf", "anyOf", "oneOf", "prefixItems"
_MAPS = "$defs", "definitions", "dependentSchemas", "patternProperties", "properties"
_REFERENCES = "$ref", "$dynamicRef"

_REFER_INSIDE = "Put the referenced schema into this schema, for example under $defs."

_NO_FORMATS = FormatChecker(formats=())


class JsonSchema:
    """A checked schema that validates values."""

    def __init__(self, schema: Any) -> None:
        self._validator = SafeValidator(schema, registry=_nowhere())

    def is_valid(self, value: JsonValue) -> bool:
        """Return whether a value is valid under the schema.

        Raises:
            InvalidInput: validity cannot be decided; `code` is `schema_loop`, `schema_too_deep`,
                `schema_too_costly` or `invalid_schema`.
        """
        try:
            with bounded_run():
                return bool(self._validator.is_valid(value))
        except Unresolvable as error:
            raise _wrong(f"refers to {str(error.ref)[:100]!r}, which is not in it", cure=_REFER_INSIDE) from error


def read_schema(schema: JsonValue) -> JsonSchema:
    """Check and compile a JSON Schema; a text is parsed as JSON first. Equal schemas are compiled once.

    Raises:
        InvalidInput: it is no schema of draft 2020-12, or not supported; `code` is `invalid_schema`.
    """
    try:
        text = schema if isinstance(schema, str) else json.dumps(schema, default=_plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _wrong(f"is not JSON: {str(error)[:100]}", cure="Write it as one JSON object.") from error
    compiled = _compiled(text)
    if isinstance(compiled, JsonSchema):
        return compiled
    message, cure = compiled
    raise InvalidInput(message, cure=cure, code=INVALID)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} is no JSON value")


@lru_cache(maxsize=64)
def _compiled(text: str) -> JsonSchema | tuple[str, str]:
    """Return a schema, or an error's message and cure: cached too, because many samples may share a broken schema."""
    try:
        schema = _arranged(parse_json(text, what="The JSON Schema", any_text=True))
        if isinstance(schema, dict) and str(schema.pop("$schema", DIALECT)).rstrip("#") != DIALECT:
            raise _wrong("is of another draft than 2020-12", cure=f'Write it with "$schema": "{DIALECT}".')
        _check(schema, "$")
        _check_reachable(schema)
    except InvalidInput as error:
        return error.message, error.cure
    except RecursionError:
        return "The JSON Schema is nested too deeply.", "Write a flatter schema."
    return JsonSchema(schema)


def _arranged(value: JsonValue) -> Any:
    """Move `unevaluated…` to the end, so that loops in other keywords are found first; the order has no meaning."""
    if isinstance(value, list):
        return [_arranged(item) for item in value]
    if isinstance(value, dict):
        return {name: _arranged(value[name]) for name in sorted(value, key=lambda name: name.startswith("unevaluated"))}
    return value


def _check(schema: Any, location: str) -> None:
    """Check a schema against the draft's meta-schema; patterns are checked by the engine that runs them."""
    if not isinstance(schema, (dict, bool)):
        raise _wrong(f"is neither an object nor a boolean at {location}", cure="Write a JSON object there.")
    try:
        Draft202012Validator.check_schema(schema, format_checker=_NO_FORMATS)
    except SchemaError as error:
        where = f"{location}{error.json_path.removeprefix('$')}"
        raise _wrong(f"is wrong at {where}: {error.message[:150]}", cure="Correct the value there.") from error


def _check_reachable(root: Any) -> None:
    """Visit every schema that may be evaluated: all parts of the document, and the targets of references."""
    resolver = _nowhere().resolver_with_root(DRAFT202012.create_resource(root))
    seen: dict[int, str] = {}
    inside, referred = [("$", root, resolver)], list[tuple[str, Any, Any]]()
    while inside or referred:
        if not inside:
            location, schema, resolver = referred.pop()
            if id(schema) in seen or isinstance(schema, bool):
                continue
            _check(schema, location)  # it is in a location where the draft expects no schema, so it is not checked yet
        else:
            location, schema, resolver = inside.pop()
        if isinstance(schema, bool):
            continue
        seen[id(schema)] = location
        _check_own(schema, location)
        for keyword in _REFERENCES:
            if keyword in schema:
                at = f"{location}.{keyword}"
                resolved = _resolved(resolver, schema[keyword], at)
                referred.append((at, resolved.contents, resolved.resolver))
        inside += [
            (at, part, resolver.in_subresource(DRAFT202012.create_resource(part)))
            for at, part in _parts(schema, location)
        ]


def _check_own(schema: dict[str, Any], location: str) -> None:
    if "$schema" in schema:
        cure = "Leave $schema out there; write it at the top of the schema."
        raise _wrong(f"has $schema at {location}, inside of the schema", cure=cure)
    try:
        for pattern in [*([schema["pattern"]] if "pattern" in schema else []), *schema.get("patternProperties", {})]:
            finds(pattern)
    except InvalidInput as error:
        raise InvalidInput(
            f"At {location} of the JSON Schema: {error.message}", cure=error.cure, code=INVALID
        ) from error


def _parts(schema: dict[str, Any], location: str) -> Iterator[tuple[str, Any]]:
    for keyword in _ONE:
        if keyword in schema:
            yield f"{location}.{keyword}", schema[keyword]
    for keyword in _LISTS:
        yield from ((f"{location}.{keyword}[{no}]", part) for no, part in enumerate(schema.get(keyword, ())))
    for keyword in _MAPS:
        yield from ((f"{location}.{keyword}.{name}", part) for name, part in schema.get(keyword, {}).items())


def _resolved(resolver: Any, reference: str, location: str) -> Any:
    try:
        return resolver.lookup(reference)
    # A pointer through a text or a number ends in whatever Python says of that.
    except (Unresolvable, AttributeError, LookupError, TypeError, ValueError) as error:
        message = f"refers to {reference[:100]!r} at {location}, which is not in it"
        raise _wrong(message, cure=_REFER_INSIDE) from error


def _nowhere() -> Registry[Any]:
    """Return a registry that retrieves nothing."""
    return Registry()


def _wrong(what: str, *, cure: str) -> InvalidInput:
    return InvalidInput(f"The JSON Schema {what[:400]}.", cure=cure, code=INVALID)
