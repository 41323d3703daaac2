"""Bodies of registry entries: those of files, and those made through the API with their versions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from vlmhyperbench.wire.base import Input, Output

MAX_PASTED = 100_000
"""Characters of a pasted entry: the largest of the registry has a tenth of it."""

Origin = Literal["file", "database"]


class RegistrySummary(Output):
    """A registry entry in a list."""

    kind: str
    name: str
    version: str
    description: str = ""
    problem: str | None = None
    """Why the entry cannot be used, with file and line; version and description are unknown then."""
    origin: Origin = "file"
    """Where the entry is: in a file, or in the database because it was made through the API."""
    revision: int | None = None
    """Number of the version in the database; None for files."""
    is_archived: bool = False


class TaskSummary(RegistrySummary):
    """A task in a list."""

    category: str | None = None
    dataset: str | None = None
    prompt: str | None = None
    metrics: tuple[str, ...] = ()


class EntryValue(Output):
    """A value of an entry, and where it was written."""

    path: str
    value: JsonValue
    origin: str
    """`FILE:LINE`, the version in the database with the line, or `default`."""


class EntryName(Output):
    """The name of another entry."""

    kind: str
    name: str


class RegistryEntry(RegistrySummary):
    """A complete registry entry."""

    entry: JsonValue
    """Its values with defaults; those that were written, where it cannot be used."""
    file: str | None = None
    """File of the entry: relative to the registries shipped with the product, or an absolute path."""
    text: str | None = None
    """Its YAML as it was written, without overlays."""
    values: list[EntryValue] = Field(default_factory=list)
    """Every value with its origin; empty where it cannot be used, and for earlier versions."""
    used_by: list[EntryName] = Field(default_factory=list)
    """Entries that would change with it: those that name it, themselves or through others."""
    digest: str | None = None
    """SHA-256 of the values of an entry of the database."""
    created_by: str | None = None
    created_at: datetime | None = None
    overridden_by: str | None = None
    """File of the same name that is used in the place of this entry of the database."""


class RegistryVersion(Output):
    """A version of an entry of the database."""

    revision: int
    version: str
    digest: str
    is_archived: bool
    created_by: str
    created_at: datetime


class ParseRequest(Input):
    """Request to read the YAML of an entry, without keeping it."""

    yaml: Annotated[str, Field(max_length=MAX_PASTED)]


class ParsedEntry(Output):
    """A valid entry as data: what was written, without defaults."""

    kind: str
    entry: dict[str, JsonValue]
