"""Find plugins by entry point: `vlmhyperbench.metrics`, `.datasets`, `.prompts`, `.backends`, `.reports`.

Two packages that register one name by the same door are an error; a name that nobody registers is refused with the
nearest ones. Nothing is imported before it is asked for.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections import defaultdict
from importlib.metadata import EntryPoint, entry_points
from typing import Literal

from vlmhyperbench_sdk.errors import Conflict, InvalidInput, NotFound, PluginFailure

Group = Literal["metrics", "datasets", "prompts", "backends", "reports"]


def names(group: Group) -> list[str]:
    """Every registered name of a group, sorted."""
    return sorted(entry_points(group=f"vlmhyperbench.{group}").names)


def load(group: Group, name: str) -> type:
    """Import the plugin class behind a registered name, or behind a dotted path `package.module:Class`.

    Raises:
        NotFound: nobody registers the name; the nearest are offered.
        Conflict: two distributions register it.
        PluginFailure: importing it failed.
        InvalidInput: a dotted path without a class.
    """
    if ":" in name or "." in name:
        return _import(name, name)
    found = _by_name(group).get(name, [])
    if not found:
        raise NotFound(f"No {group[:-1]} is registered as {name!r}.", cure=_suggest(name, names(group)))
    if len(found) > 1:
        owners = ", ".join(sorted(point.dist.name for point in found if point.dist))
        raise Conflict(f"The name {name!r} in {group} is registered by {owners}.", cure="Uninstall all but one.")
    return _import(found[0].value, name)


def owners(group: Group, name: str) -> frozenset[str]:
    """Distributions behind a registered name, or the top package of a dotted path, in their normalised form."""
    if "." in name or ":" in name:
        return frozenset({normalise(re.split(r"[.:]", name, maxsplit=1)[0])})
    points = _by_name(group).get(name, [])
    return frozenset(normalise(point.dist.name) for point in points if point.dist is not None)


def normalise(distribution: str) -> str:
    """Write the name of a distribution in the one form that compares (PEP 503)."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _by_name(group: Group) -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = defaultdict(list)
    for point in entry_points(group=f"vlmhyperbench.{group}"):
        if point.value not in {known.value for known in found[point.name]}:
            found[point.name].append(point)
    return found


def _import(path: str, name: str) -> type:
    module, _, attribute = path.partition(":") if ":" in path else path.rpartition(".")
    if not all(part.isidentifier() for part in (*module.split("."), attribute)):
        raise InvalidInput(f"{path!r} is not a dotted path to a class.", cure="Write package.module:Class.")
    try:
        loaded = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a plugin's module runs here, and may raise anything
        raise PluginFailure(
            f"The plugin {name!r} ({path}) cannot be imported: {error}.",
            cure="Install its package, or put its folder into PYTHONPATH, for the stack and for every command.",
        ) from error
    if not isinstance(loaded, type):
        raise PluginFailure(f"The plugin {name!r} ({path}) is not a class.")
    return loaded


def _suggest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3)
    return f"Did you mean {', '.join(near)}?" if near else f"Known: {', '.join(known) or 'none'}."
