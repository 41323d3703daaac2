"""Response bodies of registry entries."""

from __future__ import annotations

from pydantic import JsonValue

from vlmhyperbench.wire.base import Output


class RegistrySummary(Output):
    """A registry entry in a list."""

    kind: str
    name: str
    version: str
    description: str = ""
    problem: str | None = None
    """Why the entry cannot be used, with file and line; version and description are unknown then."""


class RegistryEntry(RegistrySummary):
    """A complete registry entry."""

    entry: JsonValue
    file: str | None = None
    """File of the entry: relative to the registries shipped with the product, or an absolute path."""
