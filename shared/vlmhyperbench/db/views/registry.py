"""A copy of a version of a registry entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryEntryView:
    """A version of an entry that was made through the API."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    project_id: str
    kind: str
    name: str
    revision: int
    version: str
    digest: str
    text: str
    is_archived: bool
    created_by: str
    created_at: datetime
