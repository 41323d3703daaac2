"""Bodies of registry entries."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue

from vlmhyperbench.wire.base import Input, Output

MAX_PASTED = 100_000
"""Characters of a pasted entry: the largest of the registry has a tenth of it."""


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


class ParseRequest(Input):
    """Request to read the YAML of an entry, without keeping it."""

    yaml: Annotated[str, Field(max_length=MAX_PASTED)]


class ParsedEntry(Output):
    """A valid entry as data: what was written, without defaults."""

    kind: str
    entry: dict[str, JsonValue]
