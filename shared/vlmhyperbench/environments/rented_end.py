"""`python -m vlmhyperbench.environments.rented_end RECORD`: return a rented machine as soon as nobody uses it.

It is started before the machine is rented, leaves the tree of processes of its starter, and waits for the
machine's lock, which the worker and then the gateway hold. So the machine is returned however they end.

Meanwhile it has a session with a terminal on the machine, the only sign by which SkyPilot there sees that it is in use.
If this process is killed too, or the whole computer fails, that session ends, the machine ends itself after
`max_idle_minutes`, and the next worker starts this program for every record that is left.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from vlmhyperbench.environments.programs import variables_like
from vlmhyperbench.environments.rented_records import RentedRecord, machines_in, record_file
from vlmhyperbench.environments.skypilot import SKY_VARIABLES, give_back
from vlmhyperbench.environments.store import EnvironmentStore, try_lock
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.errors import VlmHyperBenchError

_POLL_S = 5.0
_SILENT_S = 120
"""After so many seconds without a sign from here the session on the machine ends."""
_IN_USE: Final = ("bash", "-c", f"while read -r -t {_SILENT_S}; do :; done")
_PAUSES_S: Final = (0, 15, 60, 240, 900)
"""Before each try to return a machine."""


def start(record: Path) -> None:
    """Start this program for a machine; it goes on when the caller ends."""
    subprocess.run(
        [sys.executable, "-m", "vlmhyperbench.environments.rented_end", str(record)],
        env=variables_like((*SKY_VARIABLES, "UV_*", "PIP_*")),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        check=True,
    )


def return_forgotten(environments: Path) -> list[str]:
    """Return every rented machine that nobody uses; return the names of those that have a record."""
    names = machines_in(environments)
    for name in names:
        start(record_file(environments, name))
    return names


def _return(file: Path) -> None:
    """Wait until nobody uses a machine, return it, and remove its record; the next worker does it if this fails."""
    with file.with_suffix(".lock").open("ab") as lock:
        _wait(file, lock)
        try:
            record = RentedRecord.read(file)
        except FileNotFoundError:  # another process has returned it
            return
        os.environ["HOME"] = str(record.home)  # where SkyPilot has its own record of the machine
        store = EnvironmentStore(record.environments)
        workshop = Workshop(store=store, logs=record.logs, secrets_dir=record.secrets_dir)
        for pause_s in _PAUSES_S:
            time.sleep(pause_s)
            try:
                asyncio.run(give_back(record.name, record.cloud, workshop))
            except VlmHyperBenchError:  # it stands in the log
                continue
            record.remove()
            return


def _wait(file: Path, lock: IO[bytes]) -> None:
    """Wait until nobody uses a machine, and show the machine meanwhile that somebody does."""
    session: subprocess.Popen[bytes] | None = None
    try:
        while not try_lock(lock.fileno(), is_shared=False):
            if session is None or session.poll() is not None:
                session = _show_use(file)
            elif session.stdin is not None:
                with suppress(OSError):  # it has ended; the next turn starts another
                    session.stdin.write(b"\n")
                    session.stdin.flush()
            time.sleep(_POLL_S)
    finally:
        if session is not None:
            session.kill()


def _show_use(file: Path) -> subprocess.Popen[bytes] | None:
    """Start a session with a terminal on a machine; None before the machine is up, or after it was returned."""
    with suppress(FileNotFoundError):
        record = RentedRecord.read(file)
        if record.machine is not None:
            argv = record.machine.ssh(record.hosts, _IN_USE, has_terminal=True)
            quiet = subprocess.DEVNULL
            return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet)
    return None


if __name__ == "__main__":
    if os.fork() == 0:  # the caller waits for this process only, so it has no child that it must bury
        _return(Path(sys.argv[1]))
    os._exit(0)
