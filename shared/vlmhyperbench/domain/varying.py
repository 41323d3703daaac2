"""In which numbers the specs of several runs differ: the axes of a sweep. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vlmhyperbench_sdk.types import JsonObject, JsonValue

MAX_AXES = 50


def numeric_axes(specs: Sequence[JsonObject]) -> dict[str, list[float]]:
    """Return the paths of numbers that differ between specs, each with its values in order.

    A path that only some of the specs have is left out: what it means may differ too.
    """
    flat = [dict(_numbers(spec, ())) for spec in specs]
    shared = set(flat[0]).intersection(*flat[1:]) if flat else set()
    values = {path: sorted({numbers[path] for numbers in flat}) for path in sorted(shared)}
    varying = {path: found for path, found in values.items() if len(found) > 1}
    return dict(list(varying.items())[:MAX_AXES])


def _numbers(value: JsonValue, path: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _numbers(part, (*path, key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield ".".join(path), float(value)
