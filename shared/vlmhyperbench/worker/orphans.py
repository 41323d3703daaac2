"""Orphan processes: children of an earlier boot of the same worker, found by their label and killed."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from vlmhyperbench.processes import environments

WORKER = "VLMHB_LABEL_WORKER"
BOOT = "VLMHB_LABEL_BOOT"


def label(home: Path, kind: str, name: str, boot_id: UUID) -> dict[str, str]:
    """Return the environment that marks every child of a worker."""
    return {WORKER: f"{home}:{kind}:{name}", BOOT: str(boot_id)}


def kill_orphans(own: dict[str, str]) -> list[int]:
    """Kill every process that carries this worker's label with another boot; return their ids."""
    worker = f"{WORKER}={own[WORKER]}".encode()
    boot = f"{BOOT}={own[BOOT]}".encode()
    killed = []
    for pid, variables in environments():
        if worker in variables and boot not in variables:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
    return killed
