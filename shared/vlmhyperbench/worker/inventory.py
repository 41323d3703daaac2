"""A declared inventory: a file of devices with kind, name, memory and count, behind which no hardware stands.

It is for tests and for planning: workers, placement and reports behave as they would on that machine. Only simulated
engines run on declared GPUs, and any engine on a declared CPU; what ran there is marked as declared everywhere.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from vlmhyperbench.registry.documents import read_document
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.validation import validate

_GIB = 1024**3
_NOT_IN_A_UUID = re.compile(r"[^A-Za-z0-9.]+")


class DeclaredKind(BaseModel):
    """Devices of one kind."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["gpu", "cpu"] = "gpu"
    name: str = Field(min_length=1, max_length=200)
    """As the driver would name it, such as `NVIDIA H100 80GB HBM3`."""
    memory_gib: float = Field(gt=0, le=100_000)
    count: int = Field(default=1, ge=1, le=1024)


class Inventory(BaseModel):
    """The devices of a machine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    machine: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    """Name of the machine in the UUIDs of its devices; by default that of this one."""
    devices: tuple[DeclaredKind, ...] = Field(min_length=1, max_length=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One declared device."""

    kind: Literal["gpu", "cpu"]
    uuid: str
    name: str
    memory_bytes: int


def read_inventory(path: Path) -> list[Declared]:
    """Read a file of declared devices.

    Raises:
        RegistryErrors: the file is not valid; lists every error with its line.
    """
    document, errors = read_document(path, str(path))
    if document is None:
        raise RegistryErrors(errors)
    inventory, problems = validate(Inventory, document.value)
    if inventory is None:
        raise RegistryErrors.of(problems, document.location_of)
    kinds = [kind for kind in inventory.devices for _ in range(kind.count)]
    machine = _NOT_IN_A_UUID.sub("-", inventory.machine or platform.node())
    return [
        Declared(
            kind=kind.kind,
            uuid=f"declared-{machine}-{number}",
            name=kind.name,
            memory_bytes=int(kind.memory_gib * _GIB),
        )
        for number, kind in enumerate(kinds)
    ]
