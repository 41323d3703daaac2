"""The records of rented machines: which are rented, from whom, and who holds them, so that none is forgotten.

<environments>/machines/<name>.json    the record, written before the machine is rented and removed once it is gone
<environments>/machines/<name>.lock    held shared while it is prepared and used; once it is free, it is returned
<environments>/machines/<name>.hosts   its host key
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from vlmhyperbench.domain.environments import Cloud
from vlmhyperbench.environments.ssh import Machine
from vlmhyperbench.environments.store import EnvironmentStore
from vlmhyperbench.files import write_whole

_FOLDER = "machines"


@dataclass(frozen=True, slots=True, kw_only=True)
class RentedRecord:
    """What is known of a machine that was ordered."""

    file: Path
    cloud: Cloud
    logs: Path
    """Folder of logs."""
    secrets_dir: Path
    """Folder of secrets."""
    home: Path
    """Home folder in which SkyPilot keeps its own record of the machine."""
    machine: Machine | None = None
    """None until it is rented."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Distribution → version of what is installed there."""
    sent: tuple[str, ...] = ()
    """Files and folders of this machine that have arrived there whole."""

    @property
    def name(self) -> str:
        """Name of the machine."""
        return self.file.stem

    @property
    def rented(self) -> Machine:
        """The machine.

        Raises:
            LookupError: it is not rented yet.
        """
        if self.machine is None:
            raise LookupError(f"The machine {self.name} is not rented yet.")
        return self.machine

    @property
    def lock(self) -> Path:
        """File of the lock."""
        return self.file.with_suffix(".lock")

    @property
    def hosts(self) -> Path:
        """File of the host key."""
        return self.file.with_suffix(".hosts")

    @property
    def environments(self) -> Path:
        """Folder of all environments of this machine."""
        return self.file.parent.parent

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read a record.

        Raises:
            FileNotFoundError: the machine was returned.
        """
        values: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        machine = Machine(**values["machine"]) if values.get("machine") is not None else None
        return cls(
            file=file,
            cloud=values["cloud"],
            logs=Path(values["logs"]),
            secrets_dir=Path(values["secrets_dir"]),
            home=Path(values["home"]),
            machine=machine,
            packages=values.get("packages", {}),
            sent=tuple(values.get("sent", ())),
        )

    def write(self) -> None:
        """Write the record, whole or not at all; it survives a failure of the computer."""
        values = {
            "cloud": self.cloud,
            "logs": str(self.logs),
            "secrets_dir": str(self.secrets_dir),
            "home": str(self.home),
            "machine": asdict(self.machine) if self.machine is not None else None,
            "packages": dict(self.packages),
            "sent": self.sent,
        }
        write_whole(self.file, json.dumps(values).encode(), is_durable=True)

    def remove(self) -> None:
        """Forget a machine that was returned; the record goes last, so that nothing is left of one without it."""
        for file in (self.hosts, self.lock, self.file):
            file.unlink(missing_ok=True)


def record_file(environments: Path, name: str) -> Path:
    """Return the file of the record of a machine."""
    return environments / _FOLDER / f"{name}.json"


def machines_in(environments: Path) -> list[str]:
    """Return the names of the machines that were rented and not returned yet."""
    return sorted(record.stem for record in (environments / _FOLDER).glob("*.json"))


def held(environments: Path, name: str) -> AbstractAsyncContextManager[int]:
    """Hold a machine, which is returned once nobody does, and yield the open lock."""
    return EnvironmentStore(environments / _FOLDER).held(name, is_shared=True)


def is_busy(environments: Path, name: str) -> bool:
    """Return whether somebody prepares or uses a machine."""
    return EnvironmentStore(environments / _FOLDER).is_busy(name)
