"""Registry entries as the API shows them."""

from __future__ import annotations

from pydantic import JsonValue

from vlmhyperbench.wire.base import Output


class RegistrySummary(Output):
    """One entry in a list."""

    kind: str
    name: str
    version: str
    description: str = ""
    problem: str | None = None
    """Why it cannot be used, with file and line; version and description are not known then."""


class RegistryEntry(RegistrySummary):
    """One entry, whole."""

    entry: JsonValue
    file: str | None = None
    """Where it was read: relative to the registries that came with the product, or a whole path."""
