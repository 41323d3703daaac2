"""Named forms of JSON answers: the JSON Schema of each, and a page's content in that form."""

from __future__ import annotations

from collections.abc import Callable

from vlmhyperbench_document_datasets.dense import DENSE_FIELDS
from vlmhyperbench_document_datasets.pages import FIELDS, Page
from vlmhyperbench_sdk.types import JsonObject, JsonValue

_TEXT: JsonObject = {"type": "string"}
_AMOUNT: JsonObject = {"type": "number", "minimum": 0}
_WHOLE: JsonObject = {"type": "integer", "minimum": 0}
_DATE: JsonObject = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"}

_DATES = frozenset(("born", "date", "due"))
_AMOUNTS = frozenset(("price", "subtotal", "sum", "tax", "total"))
_COUNTS = frozenset(("count", "items"))
_SUMS = ("subtotal", "tax", "total")
"""Under a table."""


def schema_of(name: str, page: Page) -> JsonObject:
    """Return the JSON Schema (2020-12) of a form for pages of this class, with or without a table."""
    return _FORMS[name][0](page)


def written_as(name: str, page: Page) -> JsonObject:
    """Return a page's content in a form."""
    return _FORMS[name][1](page)


def _object(properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _kinds() -> JsonObject:
    return {"enum": sorted(FIELDS)}


def _rows(page: Page, type_of: Callable[[str], JsonObject]) -> JsonObject:
    if not page.items:
        return {}
    return {"items": {"type": "array", "items": _object({name: type_of(name) for name in page.items[0]})}}


def _names() -> JsonObject:
    """Return the fields of all classes, so that the schema does not reveal the page's class."""
    return {
        "enum": sorted(
            {name for known in (FIELDS, DENSE_FIELDS) for fields in known.values() for name in fields} | {*_SUMS}
        )
    }


def _pairs_schema(page: Page) -> JsonObject:
    pairs: JsonObject = {"type": "array", "items": _object({"name": _names(), "value": _TEXT}), "uniqueItems": True}
    return _object({"kind": _kinds(), "fields": pairs, **_rows(page, _text)})


def _pairs(page: Page) -> JsonObject:
    fields: list[JsonValue] = [{"name": name, "value": value} for name, value in page.fields.items()]
    return {"kind": page.doc_class, "fields": fields, **({"items": page.items} if page.items else {})}


def _nested_schema(page: Page) -> JsonObject:
    content: JsonObject = {"type": "object", "propertyNames": _names(), "additionalProperties": _TEXT}
    return _object({"document": _object({"kind": _kinds(), "content": content, **_rows(page, _text)})})


def _nested(page: Page) -> JsonObject:
    rows: JsonObject = {"items": page.items} if page.items else {}
    return {"document": {"kind": page.doc_class, "content": page.fields, **rows}}


def _typed_schema(page: Page) -> JsonObject:
    properties: dict[str, JsonValue] = {"kind": _kinds()}
    for name in _known_fields(page):
        properties[name] = {"anyOf": [_type_of(name), {"type": "null"}]}
    return _object({**properties, **_rows(page, _type_of)})


def _typed(page: Page) -> JsonObject:
    """Return numbers as numbers, dates as year-month-day, and null for fields of the class that are absent."""
    fields = {name: _value_of(name, page.fields.get(name)) for name in _known_fields(page)}
    rows = [{name: _value_of(name, text) for name, text in item.items()} for item in page.items]
    return {"kind": page.doc_class, **fields, **({"items": rows} if rows else {})}


def _known_fields(page: Page) -> list[str]:
    if page.items:
        return [*DENSE_FIELDS[page.doc_class], *_SUMS]
    return [*FIELDS[page.doc_class]]


def _text(_: str) -> JsonObject:
    return _TEXT


def _type_of(name: str) -> JsonObject:
    if name in _AMOUNTS:
        return _AMOUNT
    if name in _COUNTS:
        return _WHOLE
    return _DATE if name in _DATES else _TEXT


def _value_of(name: str, text: str | None) -> JsonValue:
    if text is None:
        return None
    if name in _AMOUNTS:
        return float(text)
    if name in _COUNTS:
        return int(text)
    return "-".join(reversed(text.split("."))) if name in _DATES else text


_FORMS: dict[str, tuple[Callable[[Page], JsonObject], Callable[[Page], JsonObject]]] = {
    "pairs": (_pairs_schema, _pairs),
    "nested": (_nested_schema, _nested),
    "typed": (_typed_schema, _typed),
}
SCHEMAS = tuple(_FORMS)
