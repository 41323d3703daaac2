"""Check a `response_format` before a run starts, since an engine refuses each request with a malformed one.

The types are those of the chat protocol: `text`, `json_object`, `json_schema` with a schema, `regex` with a pattern.
A `json_schema` without a schema is that of each sample, its metadata `json_schema`. The form of a schema is checked
(JSON Schema, draft 2020-12), but not whether the engine supports its keywords.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from pydantic import JsonValue

from vlmhyperbench.domain.base import Refused
from vlmhyperbench.errors import InvalidInput

MAX_PATTERN: Final = 4000
"""Maximum length of a pattern in characters."""
MAX_DEPTH: Final = 64

_MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    "text": frozenset(),
    "json_object": frozenset(),
    "json_schema": frozenset({"json_schema"}),
    "regex": frozenset({"regex"}),
}
_SCHEMA_MEMBERS: Final = frozenset({"name", "description", "schema", "strict"})
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

_TYPES: Final = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_ONE: Final = frozenset(
    {"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)
"""Keywords that hold a schema."""
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords that hold schemas by name."""
_SEVERAL: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
"""Keywords that hold a list of schemas."""
_COUNTS: Final = frozenset(
    {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"}
)
_NUMBERS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})


def check_response_format(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the response format if it is well formed.

    Raises:
        Refused: its type is unknown, a member is missing or unknown, or its schema or pattern is not valid.
    """
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _MEMBERS:
        raise Refused("its type is unknown", cure=f"Write type: {', '.join(_MEMBERS)}.")
    if odd := sorted(set(value) - _MEMBERS[kind] - {"type"}):
        allowed = ", ".join(["type", *_MEMBERS[kind]])
        raise Refused(f"a {kind} has no {odd[0][:100]!r}", cure=f"Leave it out; there is {allowed}.")
    if kind == "regex":
        _check_pattern(value.get("regex"), "regex")
    if kind == "json_schema" and "json_schema" in value:
        _check_wrapper(value["json_schema"])
    return value


def format_name(value: Mapping[str, JsonValue] | None) -> str:
    """Name a response format: its type, and the name of its schema if it has one; None is `text`."""
    if value is None:
        return "text"
    wrapper = value.get("json_schema")
    name = wrapper.get("name") if isinstance(wrapper, dict) else None
    return f"{value['type']} {name}" if name else str(value["type"])


def pinned_format(value: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
    """Return a response format as a spec has it: None for `text`, which constrains nothing, and a schema as text.

    The text keeps the order of a schema's members, in which an engine has them written; the database sorts keys.
    """
    if value is None or value["type"] == "text":
        return None
    wrapper = value.get("json_schema")
    if not isinstance(wrapper, dict):
        return value
    return {**value, "json_schema": {**wrapper, "schema": json.dumps(wrapper["schema"], ensure_ascii=False)}}


def format_of_sample(
    value: dict[str, JsonValue] | None, metadata: Mapping[str, JsonValue], *, key: str
) -> dict[str, JsonValue] | None:
    """Return what the request of a sample asks for: a `json_schema` without a schema takes that of the sample.

    Args:
        value: The response format of the run, as its spec has it.
        metadata: Metadata of the sample.
        key: Key of the sample, for errors.

    Raises:
        InvalidInput: the sample has no schema, or one that is not valid.
    """
    if value is None or value["type"] != "json_schema":
        return value
    wrapper = value.get("json_schema")
    if isinstance(wrapper, dict):
        return {**value, "json_schema": {**wrapper, "schema": _read(wrapper["schema"])}}
    cure = "Give every sample a JSON Schema as json_schema in its metadata, or write the schema into response_format."
    try:
        own: JsonValue = {"name": "answer", "schema": _read(metadata.get("json_schema")), "strict": True}
        return check_response_format({"type": "json_schema", "json_schema": own})
    except (Refused, ValueError) as error:
        message = f"The response format needs the schema of the sample {key[:200]}: {error}."
        raise InvalidInput(message, cure=cure) from error


def _read(schema: JsonValue) -> JsonValue:
    value: JsonValue = json.loads(schema) if isinstance(schema, str) else schema
    return value


def _check_wrapper(wrapper: JsonValue) -> None:
    cure = "Write json_schema: {name: answer, schema: {type: object, …}}."
    if not isinstance(wrapper, dict) or not isinstance(wrapper.get("schema"), dict):
        raise Refused("json_schema.schema is not a JSON Schema", cure=cure)
    if odd := sorted(set(wrapper) - _SCHEMA_MEMBERS):
        raise Refused(f"json_schema has no {odd[0][:100]!r}", cure=cure)
    name = wrapper.get("name")
    if name is not None and (not isinstance(name, str) or _NAME.fullmatch(name) is None):
        raise Refused("json_schema.name is not a name", cure="Use letters, digits, '_' and '-', at most 64 of them.")
    if not isinstance(wrapper.get("strict"), (bool, type(None))):
        raise Refused("json_schema.strict is not true or false", cure="Write true or false.")
    schema = wrapper["schema"]
    for message, cure in _problems(schema, "schema", root=schema, depth=0):
        raise Refused(message, cure=cure)


def _check_pattern(pattern: JsonValue, path: str) -> None:
    if not isinstance(pattern, str) or not pattern:
        raise Refused(f"{path} is not a pattern", cure="Write a regular expression as text.")
    if len(pattern) > MAX_PATTERN:
        raise Refused(f"{path} is longer than {MAX_PATTERN:,} characters", cure="Write a shorter pattern.")
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise Refused(f"{path} is not a regular expression: {error}", cure="Correct the expression.") from error


def _problems(schema: JsonValue, path: str, *, root: JsonValue, depth: int) -> Iterator[tuple[str, str]]:
    """Walk a schema and yield each error with its cure."""
    if depth > MAX_DEPTH:
        yield f"{path[:100]}… is nested deeper than {MAX_DEPTH} levels", "Flatten it, or refer to $defs."
    elif not isinstance(schema, (dict, bool)):
        yield f"{path} is not a JSON Schema", "Write an object, true or false."
    elif isinstance(schema, dict):
        for keyword, value in schema.items():
            yield from _keyword_problems(keyword, value, f"{path}.{keyword[:100]}", root=root, depth=depth)


def _keyword_problems(
    keyword: str, value: JsonValue, path: str, *, root: JsonValue, depth: int
) -> Iterator[tuple[str, str]]:
    inner = depth + 1
    if keyword in _ONE:
        yield from _problems(value, path, root=root, depth=inner)
    elif keyword in _NAMED:
        if not isinstance(value, dict):
            yield f"{path} is not an object", "Write schemas by name."
        else:
            for name, part in value.items():
                yield from _problems(part, f"{path}.{name[:100]}", root=root, depth=inner)
    elif keyword in _SEVERAL:
        if not isinstance(value, list) or not value:
            yield f"{path} is not a list of schemas", "Write at least one schema."
        else:
            for no, part in enumerate(value):
                yield from _problems(part, f"{path}.{no}", root=root, depth=inner)
    elif (problem := _leaf_problem(keyword, value, root)) is not None:
        yield f"{path} {problem[0]}", problem[1]


def _leaf_problem(keyword: str, value: JsonValue, root: JsonValue) -> tuple[str, str] | None:
    """Return the error of a keyword whose value is not a schema, with its cure; unknown keywords are not checked."""
    if keyword == "pattern":
        try:
            _check_pattern(value, "it")
        except Refused as error:
            return f"cannot be used: {error}", error.cure
    if keyword == "$ref" and not _is_resolvable(value, root):
        return "does not refer to a part of this schema", "Refer to one, such as #/$defs/name."
    is_right, message, cure = _LEAVES.get(keyword, (_is_anything, "", ""))
    return None if is_right(value) else (message, cure)


def _is_anything(_: JsonValue) -> bool:
    return True


def _is_type(value: JsonValue) -> bool:
    kinds = value if isinstance(value, list) else [value]
    return bool(kinds) and all(isinstance(kind, str) and kind in _TYPES for kind in kinds)


def _is_names(value: JsonValue) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_values(value: JsonValue) -> bool:
    return isinstance(value, list) and bool(value)


def _is_count(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_LEAVES: Final[Mapping[str, tuple[Callable[[JsonValue], bool], str, str]]] = {
    "type": (_is_type, "is not a type", f"Write {', '.join(sorted(_TYPES))}, or a list of them."),
    "required": (_is_names, "is not a list of names", "Write a list of texts."),
    "enum": (_is_values, "is not a list of values", "Write at least one value."),
    **dict.fromkeys(_COUNTS, (_is_count, "is not a count", "Write a whole number, 0 or more.")),
    **dict.fromkeys(_NUMBERS, (_is_number, "is not a number", "Write a number.")),
}
"""Keyword → check of its value, and the message and cure if the check fails."""


def _is_resolvable(reference: JsonValue, root: JsonValue) -> bool:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return False
    for part in filter(None, reference[1:].split("/")):
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(root, dict) or name not in root:
            return False
        root = root[name]
    return True
