"""Make Pydantic types of a JSON Schema, to validate answers.

A subset of draft 2020-12: a keyword that has an effect and is not supported is refused, never ignored. `format` asserts
nothing, as in the draft; patterns run in Pydantic's engine, which takes linear time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any, Literal, Union, cast

from pydantic import BeforeValidator, ConfigDict, Field, PydanticUserError, Strict, TypeAdapter, create_model
from pydantic_core import SchemaError

from vlmhyperbench.errors import pydantic_message
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonObject, JsonValue

_ANNOTATIONS = {
    "$schema", "$id", "$comment", "$defs", "title", "description", "default", "examples", "deprecated", "readOnly",
    "writeOnly", "format",
}  # fmt: skip
_KEYWORDS = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems", "maxItems"},
    "string": {"minLength", "maxLength", "pattern"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "boolean": set[str](),
    "null": set[str](),
}
_BOUNDS = {
    "minLength": "min_length", "maxLength": "max_length", "pattern": "pattern", "minItems": "min_length",
    "maxItems": "max_length", "minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
}  # fmt: skip
_DEPTH = 64
_CURE = "Correct the schema there; docs/extractors.md lists what is supported."

Type = Any
"""A type expression that is made at run time."""
Location = tuple[str, ...]
"""Keys from the top of a schema to a part of it."""


def schema_type(schema: JsonValue) -> TypeAdapter[Any]:
    """Return a validator of a schema's values.

    Raises:
        InvalidInput: the schema is invalid, has a keyword that is not supported, or refers to itself.
    """
    try:
        return TypeAdapter(_Maker(schema).type_of(schema, ("schema",)))
    except (SchemaError, PydanticUserError) as error:
        # Pydantic quotes the pattern first; its last line has the reason.
        reason = str(error).splitlines()[-1].strip().removeprefix("error: ").removeprefix("TypeError: ")
        raise InvalidInput(f"The JSON Schema cannot be used: {reason}.", cure=_CURE) from error
    except InvalidInput as error:
        if error.cure:
            raise
        raise InvalidInput(error.message, cure=_CURE) from error


def complaint_of(errors: list[Any]) -> str:
    """Return the location and the message of a validation's first error."""
    first = errors[0]
    location = ".".join(str(part) for part in first["loc"]) or "the value"
    return f"{location}: {pydantic_message(first)}"


class _Maker:
    def __init__(self, root: JsonValue) -> None:
        self._root = root
        self._types: dict[str, Type] = {}
        """Reference → its type, so that a part with many references is made once."""
        self._open: list[str] = []
        """References that are being followed."""

    def type_of(self, schema: JsonValue, location: Location) -> Type:
        if len(location) > _DEPTH:
            raise InvalidInput(f"The JSON Schema is nested too deeply at {_at(location[:5])}….")
        if schema is True or schema == {}:
            return Any
        if not isinstance(schema, Mapping):
            raise InvalidInput(f"The JSON Schema is no object at {_at(location)}.")
        if "$ref" in schema:
            self._check_keywords(schema, {"$ref"}, location)
            return self._referred(schema["$ref"], location)
        if "const" in schema or "enum" in schema:
            return self._literal(schema, location)
        if "anyOf" in schema:
            return self._union(schema, location)
        kinds = schema.get("type")
        if isinstance(kinds, list):
            return _union_of(self._typed(schema, kind, location, several=kinds) for kind in kinds)
        return self._typed(schema, kinds, location, several=[kinds])

    def _typed(self, schema: JsonObject, kind: JsonValue, location: Location, *, several: list[JsonValue]) -> Type:
        if not isinstance(kind, str) or kind not in _KEYWORDS:
            raise InvalidInput(
                f"The JSON Schema has no known type at {_at(location)}.",
                cure=f"Write one of {', '.join(_KEYWORDS)}.",
            )
        known = set[str]().union(*(_KEYWORDS.get(str(name), set()) for name in several))
        self._check_keywords(schema, {"type", *known}, location)
        bounds = {_BOUNDS[name]: schema[name] for name in _KEYWORDS[kind] & schema.keys() & _BOUNDS.keys()}
        match kind:
            case "object":
                return self._object(schema, location)
            case "array":
                items = self.type_of(schema.get("items", True), (*location, "items"))
                return Annotated[list[items], Strict(), _field(bounds)]  # type: ignore[valid-type]  # made at run time
            case "string":
                return Annotated[str, Strict(), _field(bounds)]
            case "integer":
                return Annotated[int, Strict(), _field(bounds), BeforeValidator(_whole)]
            case "number":
                return Annotated[float, Strict(), _field(bounds), BeforeValidator(_no_boolean)]
            case "boolean":
                return Annotated[bool, Strict()]
            case _:
                return None

    def _object(self, schema: JsonObject, location: Location) -> Type:
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        more = schema.get("additionalProperties", True)
        if not isinstance(properties, Mapping) or not isinstance(required, list):
            raise InvalidInput(f"At {_at(location)} of the JSON Schema, properties is no object, or required no list.")
        if isinstance(more, Mapping) and more:
            if properties or required:
                raise InvalidInput(f"The JSON Schema has properties and schemas of other keys at {_at(location)}.")
            return dict[str, self.type_of(more, (*location, "additionalProperties"))]  # type: ignore[misc]  # made at run time
        if more is False and (odd := [str(name) for name in required if name not in properties]):
            raise InvalidInput(f"The JSON Schema both requires and forbids {', '.join(odd)} at {_at(location)}.")
        return self._model(properties, required, location, forbid=more is False)

    def _model(self, properties: JsonObject, required: list[JsonValue], location: Location, *, forbid: bool) -> Type:
        fields: dict[str, Any] = {}
        for no, name in enumerate(dict.fromkeys([*properties, *map(str, required)])):
            kind = self.type_of(properties.get(name, True), (*location, name))
            fields[f"field_{no}"] = (kind, Field(... if name in required else None, alias=name))
        config = ConfigDict(extra="forbid" if forbid else "ignore", protected_namespaces=())
        return create_model(location[-1], __config__=config, **fields)

    def _referred(self, reference: JsonValue, location: Location) -> Type:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise InvalidInput(
                f"The JSON Schema refers to {str(reference)[:100]!r}, outside of itself, at {_at(location)}."
            )
        if reference in self._open:
            cure = "Write out as many levels as answers need."
            raise InvalidInput(f"The JSON Schema refers to itself by {reference!r} at {_at(location)}.", cure=cure)
        if reference not in self._types:
            self._open.append(reference)
            self._types[reference] = self.type_of(self._resolved(reference, location), (*location, reference))
            self._open.pop()
        return self._types[reference]

    def _resolved(self, reference: str, location: Location) -> JsonValue:
        target = self._root
        for part in filter(None, reference.lstrip("#").split("/")):
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, Mapping) or name not in target:
                raise InvalidInput(f"The JSON Schema has no {reference!r}, which {_at(location)} refers to.")
            target = target[name]
        return target

    def _literal(self, schema: JsonObject, location: Location) -> Type:
        self._check_keywords(schema, {"const", "enum", "type"}, location)
        values = [schema["const"]] if "const" in schema else schema["enum"]
        if (
            not isinstance(values, list)
            or not values
            or not all(isinstance(v, str | int | bool | None) for v in values)
        ):
            raise InvalidInput(
                f"At {_at(location)} of the JSON Schema, const or enum has another value than text, a whole number, "
                "true, false or null."
            )
        return Annotated[Literal[tuple(values)], BeforeValidator(partial(_same_kind, values=tuple(values)))]

    def _union(self, schema: JsonObject, location: Location) -> Type:
        self._check_keywords(schema, {"anyOf"}, location)
        parts = schema["anyOf"]
        if not isinstance(parts, list) or not parts:
            raise InvalidInput(f"The JSON Schema has an empty anyOf at {_at(location)}.")
        return _union_of(self.type_of(part, (*location, "anyOf")) for part in parts)

    @staticmethod
    def _check_keywords(schema: JsonObject, known: set[str], location: Location) -> None:
        if unknown := sorted(set(schema) - known - _ANNOTATIONS):
            raise InvalidInput(f"The JSON Schema has {', '.join(unknown)} at {_at(location)}, which is not supported.")


def _at(location: Location) -> str:
    return ".".join(location)


def _union_of(types: Iterable[Type]) -> Type:
    return Union[tuple(types)]


def _field(bounds: Mapping[str, JsonValue]) -> Any:
    return Field(**cast("dict[str, Any]", bounds))


def _same_kind(value: object, *, values: tuple[object, ...]) -> object:
    """True is not 1 in JSON, though it is in Python."""
    alike = [isinstance(allowed, bool) is isinstance(value, bool) for allowed in values if allowed == value]
    if alike and not any(alike):
        raise ValueError("it is not one of the listed values")
    return value


def _whole(value: object) -> object:
    """1.0 is an integer in JSON Schema."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _no_boolean(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("it is true or false, not a number")  # noqa: TRY004 -- what Pydantic turns into a complaint
    return value
