"""The values of entries with where each was written, and in what two catalogues differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.documents import Document
from vlmhyperbench.registry.errors import Path, field_of
from vlmhyperbench.registry.loading import OVERLAY, SUFFIX
from vlmhyperbench.registry.origins import DEFAULT, is_written


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One value of an entry."""

    path: str
    value: JsonValue
    origin: str
    """`FILE:LINE`, or `default`."""
    is_of_overlay: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A value that two catalogues do not share; None: the entry lacks it, or there is no such entry."""

    kind: str
    name: str
    path: str
    left: Value | None
    right: Value | None


def effective_values(catalogue: Catalogue, kind: str, name: str) -> list[Value]:
    """Return every value of an entry, defaults too, with where it was written.

    Raises:
        NotFound: there is no such kind or entry.
        RegistryErrors: the entry is invalid.
    """
    entry = catalogue.get(kind, name)
    document = catalogue.documents.get((kind, name), Document({}))
    return [_value(document, path, value) for path, value in leaves(entry.model_dump(mode="json"))]


def differences(left: Catalogue, right: Catalogue) -> list[Difference]:
    """Return in which written values two catalogues differ; entries that are invalid are compared as well."""
    found = []
    for kind, name in sorted({*left.documents, *right.documents}):
        sides = [_written(catalogue, kind, name) for catalogue in (left, right)]
        for path in dict.fromkeys((*sides[0], *sides[1])):
            first, second = (side.get(path) for side in sides)
            if first is None or second is None or first.value != second.value:
                found.append(Difference(kind=kind, name=name, path=path, left=first, right=second))
    return found


def leaves(value: JsonValue, path: Path = ()) -> Iterator[tuple[Path, JsonValue]]:
    """Yield the values below a value that hold no others, with their paths; an empty list or mapping is one."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list) and value:
        for no, inner in enumerate(value):
            yield from leaves(inner, (*path, no))
    else:
        yield path, value


def _written(catalogue: Catalogue, kind: str, name: str) -> dict[str, Value]:
    document = catalogue.documents.get((kind, name))
    if document is None:
        return {}
    return {field_of(path): _value(document, path, value) for path, value in leaves(document.value)}


def _value(document: Document, path: Path, value: JsonValue) -> Value:
    location = document.location_of(path) if is_written(document, path) else None
    return Value(
        path=field_of(path),
        value=value,
        origin=DEFAULT if location is None else f"{location.file}:{location.line}",
        is_of_overlay=location is not None and location.file.endswith(f"{OVERLAY}{SUFFIX}"),
    )
