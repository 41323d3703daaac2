"""Look up names in entries; unknown names become problems that suggest similar names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from vlmhyperbench.domain.specs import ExtractorSpec, MetricSpec, PluginRef
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.registry.catalogue import SINGULAR, Catalogue
from vlmhyperbench.registry.choices import ExtractorChoice
from vlmhyperbench.registry.errors import Path, Problem, RegistryErrors
from vlmhyperbench.registry.plugins import Plugins
from vlmhyperbench.registry.schemas import Entry
from vlmhyperbench.scoring.extraction import open_extractor
from vlmhyperbench.scoring.extractors import EXTRACTORS, Extractor
from vlmhyperbench_sdk.discovery import Group
from vlmhyperbench_sdk.suggestions import did_you_mean

E = TypeVar("E", bound=Entry)
_FROM_PACKAGES: Final[frozenset[Group]] = frozenset({"datasets", "metrics", "prompts"})
"""Plugins that may run from an entry of packages, in an environment of their own; backends do it by other keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """Looks up names in a catalogue and collects problems."""

    catalogue: Catalogue
    plugins: Plugins
    broken: Collection[tuple[str, str]] = ()
    """(kind, name) of entries whose errors are already reported; a reference to one is not reported again."""
    problems: list[Problem] = field(default_factory=list)
    named: set[tuple[str, str]] = field(default_factory=set)
    """(kind, name) of every entry that was looked up, whether or not it can be used."""

    def say(self, path: Path, message: str, cure: str = "") -> None:
        """Add a problem unless it was already added."""
        problem = Problem(path=path, message=message, cure=cure)
        if problem not in self.problems:
            self.problems.append(problem)

    def find(self, entries: Mapping[str, E], kind: str, name: str, path: Path) -> E | None:
        """Return the entry with a name, or None if it is unknown or broken."""
        self.named.add((kind, name))
        if (kind, name) in self.broken:
            return None
        try:
            return self.catalogue.look_up(entries, kind, name)
        except NotFound as error:
            self.say(path, error.message, error.cure)
        except RegistryErrors as error:
            for wrong in error.errors:
                self.say(path, f"the {SINGULAR[kind]} {name!r} cannot be used: {wrong}", "Correct that entry.")
        return None

    def plugin(
        self, group: Group, name: str, package: str | None, path: Path, *, package_key: str = "package"
    ) -> PluginRef | None:
        """Check that a plugin is usable and comes from the package that the entry names in `package_key`."""
        if self.is_apart(group, name, package):
            self._check_registers(group, name, str(package), path)
            return None
        problem = self.plugins.problem_with(group, name)
        if problem is not None:
            message, cure = problem
            if package in self.catalogue.packages:
                cure = f"Install {package} where stack and commands run: {group} are not run from an entry of packages."
            self.say(path, message, cure)
            return None
        if package is not None:
            self.find(self.catalogue.packages, "packages", package, (*path[:-1], package_key))
        owner = self.plugins.package_of(group, name)
        if owner is not None and package is not None and owner.distribution != package:
            message = f"{name!r} comes from the package {owner.distribution}, not from {package}."
            self.say(path, message, f"Write {owner.distribution}.")
        return self.plugins.pin(group, name)

    def is_apart(self, group: Group, name: str, package: str | None) -> bool:
        """Return whether a plugin runs from its registered package, in an environment of its own: it is not here."""
        if group not in _FROM_PACKAGES or package not in self.catalogue.packages:
            return False
        return self.plugins.problem_with(group, name) is not None

    def _check_registers(self, group: Group, name: str, package: str, path: Path) -> None:
        """Check that a package registers a plugin, as far as that is known."""
        entry = self.find(self.catalogue.packages, "packages", package, path)
        if entry is None or entry.plugins is None or "." in name or ":" in name:
            return
        known = entry.plugins.get(group, ())
        if name not in known:
            cure = did_you_mean(name, known, nothing="Register it in the package's pyproject.toml, and pin it again.")
            self.say(path, f"the package {package!r} registers no {group[:-1]} {name!r}.", cure)

    def metric(self, reference: str, path: Path) -> MetricSpec | None:
        """Resolve `name[@profile][:version]`."""
        rest, _, version = reference.partition(":")
        name, _, profile = rest.partition("@")
        entry = self.find(self.catalogue.metrics, "metrics", name, path)
        if entry is None:
            return None
        if version and version != entry.version:
            message = f"the metric {name!r} has the version {entry.version}, not {version}."
            self.say(path, message, f"Write {rest}:{entry.version}.")
        profile = profile or entry.profile
        if profile != entry.profile and profile not in entry.profiles:
            known = (entry.profile, *entry.profiles)
            self.say(path, f"the metric {name!r} has no profile {profile!r}.", did_you_mean(profile, known))
        return MetricSpec(
            name=name,
            profile=profile,
            version=entry.version,
            class_path=entry.class_path,
            package=None
            if entry.environment is not None or self.is_apart("metrics", entry.class_path, entry.package)
            else self.plugins.pin("metrics", entry.class_path),
            params={**entry.params, **entry.profiles.get(profile, {})},
        )

    def extractor(self, reference: str | ExtractorChoice, path: Path) -> ExtractorSpec | None:
        """Resolve `name[:version]` with its params, and check that it can be made; without a version, the one there is.

        Params that are at their defaults are left out, so that one way of reading has one label.
        """
        chosen = ExtractorChoice(name=reference) if isinstance(reference, str) else reference
        name, _, version = chosen.name.partition(":")
        known = EXTRACTORS.get(name, Extractor)
        spec = ExtractorSpec(name=name, version=int(version or known.version), params=chosen.params)
        try:
            opened = open_extractor(spec)
        except (NotFound, InvalidInput) as error:
            self.say(path, error.message, error.cure)
            return None
        params = opened.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return ExtractorSpec(name=spec.name, version=spec.version, params=params)
