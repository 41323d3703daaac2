"""What benchmarks say of the machine: its load, and the processes of each part of a running stack."""

from __future__ import annotations

import os

import psutil

from vlmhyperbench.local.supervisor import control
from vlmhyperbench.local.supervisor.home import Home


def machine_load() -> str:
    """Return the load averages and the cores of the machine: a time that was measured under load is an upper bound."""
    averages = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    return f"load averages over 1, 5 and 15 minutes: {averages}; {os.cpu_count()} cores"


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
