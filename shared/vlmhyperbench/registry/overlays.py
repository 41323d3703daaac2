"""Overlays: `<name>.dev.yaml` over `<name>.yaml` where the run mode is `dev`; every value keeps its place of origin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, get_args

from pydantic import JsonValue

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.registry.documents import Document, Place
from vlmhyperbench.registry.errors import Path, RegistryError, did_you_mean

RunMode = Literal["prod", "dev"]

MERGE_KEY: Final = "$merge"
WHOLE: Final = frozenset({"source"})
"""Keys whose value is always replaced whole: half of one source and half of another is none."""


def check_run_mode(mode: str) -> RunMode:
    """Return a run mode that is one.

    Raises:
        InvalidInput: it is neither `prod` nor `dev`.
    """
    known: tuple[RunMode, ...] = get_args(RunMode)
    for candidate in known:
        if mode == candidate:
            return candidate
    raise InvalidInput(f"run_mode is {mode!r}.", cure=did_you_mean(mode, known))


def overlay(base: Document, over: Document) -> tuple[Document, list[RegistryError]]:
    """Put a document over another, top-level key by top-level key; `$merge: deep` merges mappings inside as well."""
    errors = list(_check(base, over))
    is_deep = over.value.get(MERGE_KEY) == "deep"
    value, places = dict(base.value), dict(base.places)
    for key, item in over.value.items():
        if key != MERGE_KEY:
            _put(value, places, over, (key,), item, is_deep=is_deep and key not in WHOLE)
    return Document(value, places), errors


def _check(base: Document, over: Document) -> Iterator[RegistryError]:
    if over.value.get(MERGE_KEY, "deep") != "deep":
        yield _error(over, MERGE_KEY, "the only way to merge besides the default is `deep`.", "Write `$merge: deep`.")
    if "name" in over.value and over.value["name"] != base.value.get("name"):
        yield _error(over, "name", "an overlay may not change the name.", "Remove it.")


def _put(
    value: dict[str, JsonValue],
    places: dict[Path, Place],
    over: Document,
    path: Path,
    item: JsonValue,
    *,
    is_deep: bool,
) -> None:
    key = str(path[-1])
    below = value.get(key)
    if is_deep and isinstance(item, dict) and isinstance(below, dict):
        merged = dict(below)
        for name, inner in item.items():
            _put(merged, places, over, (*path, name), inner, is_deep=True)
        value[key] = merged
        return
    for known in [known for known in places if known[: len(path)] == path]:
        del places[known]
    places.update({known: place for known, place in over.places.items() if known[: len(path)] == path})
    value[key] = item


def _error(document: Document, key: str, message: str, cure: str) -> RegistryError:
    place = document.place_of((key,))
    return RegistryError(file=place.file, line=place.line, field=key, message=message, cure=cure)
