"""Overlays: in run mode `dev`, `<name>.dev.yaml` overrides `<name>.yaml`; every value keeps its original location."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, get_args

from pydantic import JsonValue

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.registry.documents import Document
from vlmhyperbench.registry.errors import Path, RegistryError, SourceLocation
from vlmhyperbench_sdk.suggestions import did_you_mean

RunMode = Literal["prod", "dev"]

MERGE_KEY: Final = "$merge"
WHOLE: Final = frozenset({"source"})
"""Keys whose value is always replaced as a whole, because two merged sources would not be a valid one."""


def check_run_mode(mode: str) -> RunMode:
    """Return a valid run mode.

    Raises:
        InvalidInput: it is neither `prod` nor `dev`.
    """
    known: tuple[RunMode, ...] = get_args(RunMode)
    for candidate in known:
        if mode == candidate:
            return candidate
    raise InvalidInput(f"There is no run mode {mode!r}.", cure=did_you_mean(mode, known))


def overlay(base: Document, over: Document) -> tuple[Document, list[RegistryError]]:
    """Override a document by another, per top-level key; `$merge: deep` also merges nested mappings."""
    errors = list(_check(base, over))
    is_deep = over.value.get(MERGE_KEY) == "deep"
    value, locations = dict(base.value), dict(base.locations)
    for key, item in over.value.items():
        if key != MERGE_KEY:
            _put(value, locations, over, (key,), item, is_deep=is_deep and key not in WHOLE)
    return Document(value, locations), errors


def _check(base: Document, over: Document) -> Iterator[RegistryError]:
    if over.value.get(MERGE_KEY, "deep") != "deep":
        yield _error(over, MERGE_KEY, "the only way to merge besides the default is `deep`.", "Write `$merge: deep`.")
    if "name" in over.value and over.value["name"] != base.value.get("name"):
        yield _error(over, "name", "an overlay may not change the name.", "Remove it.")


def _put(
    value: dict[str, JsonValue],
    locations: dict[Path, SourceLocation],
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
            _put(merged, locations, over, (*path, name), inner, is_deep=True)
        value[key] = merged
        return
    for known in [known for known in locations if known[: len(path)] == path]:
        del locations[known]
    locations.update({known: location for known, location in over.locations.items() if known[: len(path)] == path})
    value[key] = item


def _error(document: Document, key: str, message: str, cure: str) -> RegistryError:
    location = document.location_of((key,))
    return RegistryError(file=location.file, line=location.line, field=key, message=message, cure=cure)
