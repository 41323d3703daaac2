"""Where the embedded stack keeps its files, and whether it can; standard library only: the client reads it too."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from vlmhyperbench.errors import Unavailable

NEEDED_BYTES = 256 * 1024 * 1024
"""Free space below which the stack is not started: databases that run full lose more than time."""


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of one embedded stack."""

    root: Path

    @classmethod
    def default(cls) -> Home:
        """Return the folder that `VLMHB_HOME` names, or the XDG data folder."""
        if named := os.environ.get("VLMHB_HOME"):
            return cls(Path(named).expanduser().absolute())
        data = os.environ.get("XDG_DATA_HOME", "")
        return cls((Path(data) if data.startswith("/") else Path.home() / ".local" / "share") / "vlmhyperbench")

    @property
    def run(self) -> Path:
        """State of the running stack, 0700."""
        return self.root / "run"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def storage(self) -> Path:
        return self.root / "storage"

    @property
    def settings_file(self) -> Path:
        """What services read: URLs with passwords, 0600."""
        return self.run / "settings.json"

    @property
    def api_key_file(self) -> Path:
        """The random key that the command line sends, 0600."""
        return self.run / "api-key"

    @property
    def lock_file(self) -> Path:
        return self.run / "supervisor.lock"

    @property
    def processes_file(self) -> Path:
        """What the supervisor says of its processes."""
        return self.run / "processes.json"

    def log_of(self, name: str) -> Path:
        """Return the log of one process."""
        return self.logs / f"{name}.log"

    def prepare(self) -> None:
        """Make the folders, and see that they can be written and have room.

        Raises:
            Unavailable: the folder cannot be written, or its disk is full.
        """
        try:
            for folder in (self.root, self.run, self.logs, self.storage):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.run.chmod(0o700)
            probe = self.run / f"probe-{secrets.token_hex(4)}"
            try:
                probe.write_bytes(b"\0" * 4096)
            finally:
                probe.unlink(missing_ok=True)
            free = shutil.disk_usage(self.root).free
        except OSError as error:
            raise Unavailable(
                f"The folder {self.root} cannot be written: {error.strerror or error}.",
                cure="Correct its permissions, free some space, or set VLMHB_HOME to another folder.",
                code="home_unwritable",
            ) from error
        if free < NEEDED_BYTES:
            raise Unavailable(
                f"The disk of {self.root} has {free // 2**20} MiB left; {NEEDED_BYTES // 2**20} MiB are needed.",
                cure="Free some space, or set VLMHB_HOME to a folder on another disk.",
                code="disk_full",
            )

    def api_url(self) -> str | None:
        """Return where the stack's API is, as the supervisor wrote it; None where it never ran."""
        try:
            found = json.loads(self.settings_file.read_text(encoding="utf-8"))
            host, port = found["api_host"], found["api_port"]
        except (OSError, ValueError, LookupError, TypeError):
            return None
        return f"http://[{host}]:{port}" if ":" in str(host) else f"http://{host}:{port}"

    def api_key(self) -> str | None:
        """Return the stack's API key; None where there is none."""
        try:
            return self.api_key_file.read_text(encoding="utf-8").strip() or None
        except OSError:
            return None
