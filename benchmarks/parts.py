"""The processes of each part of a running stack, for benchmarks that count their memory or their processor time."""

from __future__ import annotations

import psutil

from vlmhyperbench.local.supervisor import control
from vlmhyperbench.local.supervisor.home import Home


def processes_of_parts(home: Home) -> dict[str, list[psutil.Process]]:
    """Return the processes of each part that is up, with those that it has started, and that no other part has."""
    trees = {
        part.name: {process.pid: process for process in (root, *root.children(recursive=True))}
        for part in control.status(home).processes
        if part.pid is not None
        for root in [psutil.Process(part.pid)]
    }
    # The supervisor and the fork server are parents of parts that have lines of their own.
    return {
        name: [
            process
            for pid, process in tree.items()
            if not any(pid in other for other in trees.values() if other.keys() < tree.keys())
        ]
        for name, tree in trees.items()
    }
