"""A rented machine as this machine reaches it: the command lines of ssh and rsync, and how they are run.

What is rented is new, so its host key is taken at the first connection and must stay the same: the file of host keys
lies beside the machine's record. The user's own configuration of ssh is not read.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vlmhyperbench.environments.programs import Step, last_lines
from vlmhyperbench.errors import Unavailable

FOLDER: Final = "vlmhyperbench"
"""Folder on the machine, in the home folder of its user."""
SSH_VARIABLES: Final = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "SSH_AUTH_SOCK")
"""Variables that ssh and rsync inherit."""
LOST: Final = 255
"""Exit status of ssh, and of rsync through it, where the connection fails."""


def programs() -> str:
    """Return which programs reach rented machines.

    Raises:
        Unavailable: one is missing; code `not_installed`.
    """
    if missing := [name for name in ("ssh", "rsync") if shutil.which(name) is None]:
        raise Unavailable(
            f"Rented machines are reached by {' and '.join(missing)}, which this machine does not have.",
            cure="Install it: apt-get install openssh-client rsync",
            code="not_installed",
        )
    return "ssh and rsync"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """How a machine is reached, and what it is."""

    name: str
    host: str
    port: int
    user: str
    key: str
    """Path of the private key."""
    proxy: str | None
    """Command through which the provider's machines are reached."""
    region: str | None
    instance_type: str
    hourly_cost_usd: float
    home: str = ""
    """Home folder of its user, once that is known."""

    @property
    def root(self) -> str:
        """Folder there below which every file that is sent lies at its full path."""
        return f"{self.home}/{FOLDER}/files"

    @property
    def python(self) -> str:
        """Path of the engine's interpreter there."""
        return f"{self.home}/{FOLDER}/environment/bin/python"

    def sent(self, path: str) -> str:
        """Return where a file of this machine lies there."""
        return self.root + path

    def options(self, known_hosts: Path) -> list[str]:
        """Return ssh's options."""
        settings = {
            "BatchMode": "yes",
            "ConnectTimeout": "20",
            "IdentitiesOnly": "yes",
            "IdentityFile": str(Path(self.key).expanduser()),
            "LogLevel": "ERROR",
            "ServerAliveCountMax": "4",
            "ServerAliveInterval": "15",
            "StrictHostKeyChecking": "accept-new",
            "UserKnownHostsFile": str(known_hosts),
            **({"ProxyCommand": self.proxy} if self.proxy else {}),
        }
        return ["-F", "none", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]

    def ssh(
        self, known_hosts: Path, command: Sequence[str], *, tunnel: int | None = None, has_terminal: bool = False
    ) -> list[str]:
        """Return the command line that runs a command there; `tunnel` is a port that leads to the same port there."""
        forward = [] if tunnel is None else ["-o", "ExitOnForwardFailure=yes", "-L", _forward(tunnel)]
        return [
            *(
                "ssh",
                "-tt" if has_terminal else "-T",
                *self.options(known_hosts),
                *forward,
                "-p",
                str(self.port),
                f"{self.user}@{self.host}",
            ),
            *("--", shlex.join(command)),
        ]

    def rsync(self, known_hosts: Path, sources: Sequence[str], target: str) -> list[str]:
        """Return the command line that sends files, at their full paths below `target`; links become files."""
        shell = shlex.join(["ssh", *self.options(known_hosts), "-p", str(self.port)])
        flags = ["--archive", "--copy-links", "--relative", "--partial", "--mkpath", "--exclude=__pycache__"]
        return ["rsync", *flags, "--rsh", shell, *sources, f"{self.user}@{self.host}:{target}/"]


def lost_connection(step: Step, status: int, output: Sequence[str]) -> Unavailable | None:
    """Return the error of a machine that is not reached any more; None where a command there has failed."""
    if status != LOST:
        return None
    message = f"{step.what}, because it is not reached. The end of ssh's log:\n{last_lines(output)}\n"
    return Unavailable(message, cure="Check the network, and try again.", code="machine_unreachable")


def _forward(port: int) -> str:
    return f"127.0.0.1:{port}:127.0.0.1:{port}"
