"""Which plugins there are, asked without importing any of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Protocol, get_args

from vlmhyperbench.domain.specs import PackageRef, PluginRef, SourceRef
from vlmhyperbench.errors import Conflict
from vlmhyperbench.registry.classes import problem_with_class
from vlmhyperbench.sources import require_source, source_of, split_path
from vlmhyperbench_sdk.discovery import Group, names, normalise, owners
from vlmhyperbench_sdk.suggestions import did_you_mean

BUILT_IN_REPORTS = frozenset({"markdown", "html", "json", "csv"})
_OWN = "vlmhyperbench."
"""Our own code is known by the platform's version."""


class Plugins(Protocol):
    """What cross-validation asks about plugins."""

    def problem_with(self, group: Group, name: str) -> tuple[str, str] | None:
        """Say why a registered name or dotted path cannot be used, and the cure; None where it can."""
        ...

    def package_of(self, group: Group, name: str) -> PackageRef | None:
        """Return the distribution that registers a name, or None."""
        ...

    def pin(self, group: Group, name: str) -> PluginRef | None:
        """Return what tells a plugin's code from its next version: its distribution, or the source of a dotted path."""
        ...


class InstalledPlugins:
    """The plugins of this Python environment, as they are when the first question is asked."""

    def __init__(self, *, adapters: Collection[str] | None = None) -> None:
        """`adapters`: distributions from which backends may come; None where nobody is to be measured here."""
        self._adapters = None if adapters is None else {normalise(distribution) for distribution in adapters}
        self._packages: dict[str, PackageRef | None] = {}

    @cached_property
    def _points(self) -> Mapping[str, Sequence[EntryPoint]]:
        points: dict[str, list[EntryPoint]] = defaultdict(list)
        for group in get_args(Group):
            for point in entry_points(group=f"vlmhyperbench.{group}"):
                points[f"{group}:{point.name}"].append(point)
        return points

    def _registered(self, group: Group, name: str) -> Sequence[EntryPoint]:
        return self._points.get(f"{group}:{name}", ())

    def problem_with(self, group: Group, name: str) -> tuple[str, str] | None:
        if group == "backends" and self._adapters is not None:
            for owner in sorted(owners(group, name) - self._adapters):
                cure = f"Have an administrator add {owner} to VLMHB_ALLOWED_ADAPTERS."
                return f"the adapter {name!r} comes from {owner}, which is not on the allow-list.", cure
        if "." in name or ":" in name:
            parts = name.replace(":", ".").split(".")
            if len(parts) < 2 or name.count(":") > 1 or not all(part.isidentifier() for part in parts):
                return f"{name!r} is no dotted path.", "Write package.module:Class."
            return problem_with_class(name)
        points = self._registered(group, name)
        if len({point.value for point in points}) > 1:
            several = ", ".join(sorted(point.dist.name for point in points if point.dist))
            return f"{name!r} is registered by more than one package: {several}.", "Uninstall all but one."
        if points:
            return problem_with_class(points[0].value)
        if name in _built_in(group):
            return None
        return f"no {group[:-1]} is registered as {name!r}.", did_you_mean(name, {*names(group), *_built_in(group)})

    def package_of(self, group: Group, name: str) -> PackageRef | None:
        key = f"{group}:{name}"
        if key not in self._packages:  # each look at a distribution's version parses its metadata
            owner = next((point.dist for point in self._registered(group, name) if point.dist is not None), None)
            pinned = None if owner is None else PackageRef(distribution=owner.name, version=owner.version)
            self._packages[key] = pinned
        return self._packages[key]

    def pin(self, group: Group, name: str) -> PluginRef | None:
        if "." not in name and ":" not in name:
            return self.package_of(group, name)
        module, _ = split_path(name)
        return None if module.startswith(_OWN) else source_of(module)


def require_pinned(plugin: PluginRef | None, what: str) -> None:
    """Check that a plugin is here as the run pins it: its distribution in that version, or its source.

    Raises:
        Conflict: another version is, or none.
    """
    if isinstance(plugin, SourceRef):
        require_source(plugin, what)
        return
    if plugin is None:
        return
    try:
        installed = version(plugin.distribution)
    except PackageNotFoundError:
        installed = "none"
    if installed != plugin.version:
        raise Conflict(
            f"The run pins {plugin.distribution} {plugin.version} for the {what}, but {installed} is installed here.",
            cure="Install the pinned version, or start a new run.",
            code="plugin_version",
        )


def _built_in(group: Group) -> frozenset[str]:
    return BUILT_IN_REPORTS if group == "reports" else frozenset()
