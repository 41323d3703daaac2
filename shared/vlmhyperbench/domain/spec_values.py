"""The values of a run spec one by one, each under its path, such as `decoding.temperature`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from vlmhyperbench.domain.specs import RunSpec

ValuePath = tuple[str | int, ...]


def values_of(spec: RunSpec) -> Iterator[tuple[ValuePath, JsonValue]]:
    """Yield every value with its path; a list of plain values is one value, as is what is empty."""
    yield from _leaves(spec.model_dump(mode="json"), ())


def name_of(path: ValuePath) -> str:
    """Return a path as people and files write it."""
    return ".".join(map(str, path))


def _leaves(value: JsonValue, path: ValuePath) -> Iterator[tuple[ValuePath, JsonValue]]:
    items: list[tuple[str | int, JsonValue]] = []
    if isinstance(value, Mapping):
        items = list(value.items())
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        items = list(enumerate(value))
    if not items:
        yield path, value
    for name, item in items:
        yield from _leaves(item, (*path, name))
