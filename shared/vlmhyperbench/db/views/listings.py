"""Copies of the rows of runs in lists, and of saved views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar
from uuid import UUID

from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListingView:
    """The row of a run in lists."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    run_id: UUID
    project_id: str
    target: str
    model: str
    backend: str
    task: str
    dataset: str
    scenario: str
    columns: JsonObject
    tags: tuple[str, ...]
    note: str
    labelled_by: str | None
    labelled_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedViewView:
    """A page's filters under a name."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    project_id: str
    principal: str
    page: str
    name: str
    search: str
    saved_at: datetime
