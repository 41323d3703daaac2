"""Make Pydantic types from a JSON Schema: for answers that have to keep to one.

Draft 2020-12, as far as answers need it: what has an effect and is not known here is refused, never passed over.
`format` asserts nothing, as in the draft; patterns run in Pydantic's engine, which is linear.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any, Literal, Union, cast

from pydantic import BeforeValidator, ConfigDict, Field, PydanticUserError, Strict, TypeAdapter, create_model
from pydantic_core import SchemaError

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
_CURE = "Correct the schema there, or leave out what is not supported."

Type = Any
"""A type expression that is made at run time."""
Place = tuple[str, ...]


def schema_type(schema: JsonValue) -> TypeAdapter[Any]:
    """Return what validates values of a schema.

    Raises:
        InvalidInput: the schema is none, has a keyword that is not supported, or refers to itself without end.
    """
    try:
        return TypeAdapter(_Maker(schema).type_of(schema, ("schema",)))
    except (SchemaError, PydanticUserError) as error:
        message = f"The JSON Schema cannot be used: {str(error).splitlines()[0]}."
        raise InvalidInput(message, cure=_CURE) from error
    except InvalidInput as error:
        if error.cure:
            raise
        raise InvalidInput(error.message, cure=_CURE) from error


def complaint_of(errors: list[Any]) -> str:
    """Say where the first of a validation's errors is, and what it is."""
    first = errors[0]
    place = ".".join(str(part) for part in first["loc"]) or "the value"
    return f"{place}: {first['msg']}"


class _Maker:
    def __init__(self, root: JsonValue) -> None:
        self._root = root
        self._types: dict[str, Type] = {}
        """By reference: a part that many refer to is made once."""
        self._open: list[str] = []
        """References on the way to where we are."""

    def type_of(self, schema: JsonValue, place: Place) -> Type:
        if len(place) > _DEPTH:
            raise InvalidInput(f"The JSON Schema is nested too deeply at {_at(place[:5])}….")
        if schema is True or schema == {}:
            return Any
        if not isinstance(schema, Mapping):
            raise InvalidInput(f"The JSON Schema is no object at {_at(place)}.")
        if "$ref" in schema:
            self._check_keywords(schema, {"$ref"}, place)
            return self._referred(schema["$ref"], place)
        if "const" in schema or "enum" in schema:
            return self._literal(schema, place)
        if "anyOf" in schema:
            return self._union(schema, place)
        kinds = schema.get("type")
        if isinstance(kinds, list):
            return _union_of(self._typed(schema, kind, place, several=kinds) for kind in kinds)
        return self._typed(schema, kinds, place, several=[kinds])

    def _typed(self, schema: JsonObject, kind: JsonValue, place: Place, *, several: list[JsonValue]) -> Type:
        if not isinstance(kind, str) or kind not in _KEYWORDS:
            raise InvalidInput(
                f"The JSON Schema has no type that is known at {_at(place)}.",
                cure=f"Write one of {', '.join(_KEYWORDS)}.",
            )
        known = set[str]().union(*(_KEYWORDS.get(str(name), set()) for name in several))
        self._check_keywords(schema, {"type", *known}, place)
        bounds = {_BOUNDS[name]: schema[name] for name in _KEYWORDS[kind] & schema.keys() & _BOUNDS.keys()}
        match kind:
            case "object":
                return self._object(schema, place)
            case "array":
                items = self.type_of(schema.get("items", True), (*place, "items"))
                return Annotated[list[items], Strict(), _field(bounds)]  # type: ignore[valid-type]
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

    def _object(self, schema: JsonObject, place: Place) -> Type:
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        more = schema.get("additionalProperties", True)
        if not isinstance(properties, Mapping) or not isinstance(required, list):
            raise InvalidInput(f"The JSON Schema has properties or required of a wrong form at {_at(place)}.")
        if isinstance(more, Mapping) and more:
            if properties or required:
                raise InvalidInput(f"The JSON Schema has both properties and a schema for others at {_at(place)}.")
            return dict[str, self.type_of(more, (*place, "additionalProperties"))]  # type: ignore[misc]
        if more is False and (odd := [str(name) for name in required if name not in properties]):
            raise InvalidInput(f"The JSON Schema requires and forbids {', '.join(odd)} at {_at(place)}.")
        return self._model(properties, required, place, forbid=more is False)

    def _model(self, properties: JsonObject, required: list[JsonValue], place: Place, *, forbid: bool) -> Type:
        fields: dict[str, Any] = {}
        for no, name in enumerate(dict.fromkeys([*properties, *map(str, required)])):
            kind = self.type_of(properties.get(name, True), (*place, name))
            fields[f"field_{no}"] = (kind, Field(... if name in required else None, alias=name))
        config = ConfigDict(extra="forbid" if forbid else "ignore", protected_namespaces=())
        return create_model(place[-1], __config__=config, **fields)

    def _referred(self, reference: JsonValue, place: Place) -> Type:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise InvalidInput(
                f"The JSON Schema refers to {str(reference)[:100]!r}, outside of itself, at {_at(place)}."
            )
        if reference in self._open:
            cure = "Write out as many levels as answers need."
            raise InvalidInput(f"The JSON Schema refers to itself by {reference!r} at {_at(place)}.", cure=cure)
        if reference not in self._types:
            self._open.append(reference)
            self._types[reference] = self.type_of(self._found(reference, place), (*place, reference))
            self._open.pop()
        return self._types[reference]

    def _found(self, reference: str, place: Place) -> JsonValue:
        found = self._root
        for part in filter(None, reference.lstrip("#").split("/")):
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or name not in found:
                raise InvalidInput(f"The JSON Schema has no {reference!r}, which {_at(place)} refers to.")
            found = found[name]
        return found

    def _literal(self, schema: JsonObject, place: Place) -> Type:
        self._check_keywords(schema, {"const", "enum", "type"}, place)
        values = [schema["const"]] if "const" in schema else schema["enum"]
        if (
            not isinstance(values, list)
            or not values
            or not all(isinstance(v, str | int | bool | None) for v in values)
        ):
            raise InvalidInput(
                f"The JSON Schema lists something other than texts, whole numbers and null at {_at(place)}."
            )
        return Annotated[Literal[tuple(values)], BeforeValidator(partial(_same_kind, values=tuple(values)))]

    def _union(self, schema: JsonObject, place: Place) -> Type:
        self._check_keywords(schema, {"anyOf"}, place)
        parts = schema["anyOf"]
        if not isinstance(parts, list) or not parts:
            raise InvalidInput(f"The JSON Schema has an empty anyOf at {_at(place)}.")
        return _union_of(self.type_of(part, (*place, "anyOf")) for part in parts)

    @staticmethod
    def _check_keywords(schema: JsonObject, known: set[str], place: Place) -> None:
        if unknown := sorted(set(schema) - known - _ANNOTATIONS):
            raise InvalidInput(f"The JSON Schema has {', '.join(unknown)} at {_at(place)}, which is not supported.")


def _at(place: Place) -> str:
    return ".".join(place)


def _union_of(types: Iterable[Type]) -> Type:
    return Union[tuple(types)]


def _field(bounds: Mapping[str, JsonValue]) -> Any:
    return Field(**cast("dict[str, Any]", bounds))


def _same_kind(value: object, *, values: tuple[object, ...]) -> object:
    """True is not 1 in JSON, though it is in Python."""
    alike = [isinstance(allowed, bool) is isinstance(value, bool) for allowed in values if allowed == value]
    if alike and not any(alike):
        raise ValueError("it is none of the listed values")
    return value


def _whole(value: object) -> object:
    """1.0 is an integer in JSON Schema."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _no_boolean(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a number is wanted")  # noqa: TRY004 -- what Pydantic turns into a complaint
    return value
