"""Add to a JSON Schema what the models say of their fields: the text below each field in the source."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, JsonValue


def described_schema(model: type[BaseModel]) -> dict[str, JsonValue]:
    """Return the JSON Schema of a model, in which every field that has a text below it has this description."""
    schema: dict[str, Any] = model.model_json_schema(ref_template="#/$defs/{model}")
    parts = {**schema.get("$defs", {}), model.__name__: schema}
    for reached in _models(model, set()):
        for name, text in _field_texts(reached).items():
            field = parts.get(reached.__name__, {}).get("properties", {}).get(name)
            if field is not None and "$ref" not in field:
                field.setdefault("description", text)
    return schema


def _models(annotation: object, seen: set[object]) -> Iterator[type[BaseModel]]:
    """Yield every model that an annotation reaches, once."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation not in seen:
        seen.add(annotation)
        yield annotation
        for field in annotation.model_fields.values():
            yield from _models(field.annotation, seen)
    for part in get_args(annotation):
        yield from _models(part, seen)


def _field_texts(model: type[BaseModel]) -> dict[str, str]:
    """Return name → text of the fields of a model and of its bases."""
    texts: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if issubclass(cls, BaseModel) and cls is not BaseModel:
            texts |= _own_texts(cls)
    return texts


def _own_texts(model: type[BaseModel]) -> dict[str, str]:
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    except OSError:  # installed without its source
        return {}
    statements = body.body if isinstance(body, ast.ClassDef) else []
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in itertools.pairwise(statements)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
