"""Which plugins there are, asked without importing any of them."""

from __future__ import annotations

import importlib.util
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, get_args

from vlmhyperbench.domain.specs import PackageRef
from vlmhyperbench.registry.errors import did_you_mean
from vlmhyperbench_sdk.discovery import Group, names

BUILT_IN_REPORTS = frozenset({"markdown", "html", "json", "csv"})


class Plugins(Protocol):
    """What cross-validation asks about plugins."""

    def problem_with(self, group: Group, name: str) -> tuple[str, str] | None:
        """Say why a registered name or dotted path cannot be used, and the cure; None where it can."""
        ...

    def package_of(self, group: Group, name: str) -> PackageRef | None:
        """Return the distribution that registers a name, or None for a dotted path."""
        ...


class InstalledPlugins:
    """The plugins of this Python environment, as they are when the first question is asked."""

    @cached_property
    def _points(self) -> Mapping[str, Sequence[EntryPoint]]:
        found: dict[str, list[EntryPoint]] = defaultdict(list)
        for group in get_args(Group):
            for point in entry_points(group=f"vlmhyperbench.{group}"):
                found[f"{group}:{point.name}"].append(point)
        return found

    def _registered(self, group: Group, name: str) -> Sequence[EntryPoint]:
        return self._points.get(f"{group}:{name}", ())

    def problem_with(self, group: Group, name: str) -> tuple[str, str] | None:
        if "." in name or ":" in name:
            top = name.partition(":")[0].partition(".")[0]
            if top.isidentifier() and importlib.util.find_spec(top) is not None:
                return None
            return f"the package {top!r} of the dotted path {name!r} is not installed.", f"Install {top}."
        found = self._registered(group, name)
        if len({point.value for point in found}) > 1:
            owners = ", ".join(sorted(point.dist.name for point in found if point.dist))
            return f"{name!r} is registered by more than one package: {owners}.", "Uninstall all but one."
        if found or name in _built_in(group):
            return None
        return f"no {group[:-1]} is registered as {name!r}.", did_you_mean(name, {*names(group), *_built_in(group)})

    def package_of(self, group: Group, name: str) -> PackageRef | None:
        for point in self._registered(group, name):
            if point.dist is not None:
                return PackageRef(distribution=point.dist.name, version=point.dist.version)
        return None


def _built_in(group: Group) -> frozenset[str]:
    return BUILT_IN_REPORTS if group == "reports" else frozenset()
