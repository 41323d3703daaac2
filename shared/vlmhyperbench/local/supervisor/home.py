"""The folder of the embedded stack's files, and its checks; standard library only, because the client uses it too."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from vlmhyperbench.errors import Unavailable

NEEDED_BYTES = 256 * 1024 * 1024
"""Minimum free space to start the stack, because a full disk can damage databases."""


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of an embedded stack."""

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
        """Folder of the running stack's state, mode 0700."""
        return self.root / "run"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def storage(self) -> Path:
        return self.root / "storage"

    @property
    def settings_file(self) -> Path:
        """Settings file of the services, which contains URLs with passwords, mode 0600."""
        return self.run / "settings.json"

    @property
    def api_key_file(self) -> Path:
        """File of the random API key of the command line, mode 0600."""
        return self.run / "api-key"

    @property
    def metrics_key_file(self) -> Path:
        """File of the key with which a monitoring server reads `/metrics`, and nothing else; mode 0600."""
        return self.run / "metrics-key"

    @property
    def restoring_file(self) -> Path:
        """Marker of a restore that is not finished; no stack starts while it exists."""
        return self.run / "restoring"

    @property
    def lock_file(self) -> Path:
        return self.run / "supervisor.lock"

    @property
    def processes_file(self) -> Path:
        """Status file of the supervisor about its processes."""
        return self.run / "processes.json"

    def log_of(self, name: str) -> Path:
        """Return the log file of a process."""
        return self.logs / f"{name}.log"

    def prepare(self) -> None:
        """Create the folders, and check that they are writable and have enough free space.

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
        if self.restoring_file.exists():
            raise Unavailable(
                f"A backup was restored into {self.root}, but not to its end.",
                cure="Run `vlmhyperbench restore` again.",
                code="restore_unfinished",
            )
        if free < NEEDED_BYTES:
            raise Unavailable(
                f"The disk of {self.root} has {free // 2**20} MiB left; {NEEDED_BYTES // 2**20} MiB are needed.",
                cure="Free some space, or set VLMHB_HOME to a folder on another disk.",
                code="disk_full",
            )

    def api_url(self) -> str | None:
        """Return the URL of the stack's API as written by the supervisor; None if it never ran."""
        try:
            settings = json.loads(self.settings_file.read_text(encoding="utf-8"))
            host, port = settings["api_host"], settings["api_port"]
        except (OSError, ValueError, LookupError, TypeError):
            return None
        return f"http://[{host}]:{port}" if ":" in str(host) else f"http://{host}:{port}"

    def api_key(self) -> str | None:
        """Return the stack's API key, or None."""
        return _read_key(self.api_key_file)

    def metrics_key(self) -> str | None:
        """Return the key for `/metrics`, or None."""
        return _read_key(self.metrics_key_file)


def _read_key(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None
