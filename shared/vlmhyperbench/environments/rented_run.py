"""`python -m vlmhyperbench.environments.rented_run ORDER PATH…`: run an engine on a rented machine, in its place.

The files that the engine reads are sent to the machine and verified there. The engine listens on the machine's
loopback, and the same port of this machine leads to it through the SSH connection that runs it. When this process
ends, however it ends, the connection closes, and with it the stdin of the first process there, which ends the engine.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from vlmhyperbench.domain.environments import RemoteSpec
from vlmhyperbench.environments.rented_records import RentedRecord
from vlmhyperbench.environments.ssh import LOST, Machine
from vlmhyperbench.environments.standing_in import INIT, Order, Stdin, run_in_place, run_launcher, write_output
from vlmhyperbench.errors import Unavailable
from vlmhyperbench_sdk.protocols import LOOPBACK

_TAIL = 2000


def launch(order: Order, paths: list[str]) -> int:
    """Run the engine; return its exit status, or 128 and the number of the signal that killed it."""
    spec, record = RemoteSpec(**order.spec), RentedRecord.read(Path(order.marker))
    machine = record.rented
    _send(machine, record.hosts, paths)
    environment = {
        "kind": "remote",
        "cloud": spec.cloud,
        "region": machine.region,
        "instance_type": machine.instance_type,
        "accelerators": spec.accelerators,
    }
    order.state(host=LOOPBACK, pid=os.getpid(), environment=environment)
    line = sys.stdin.buffer.readline()
    if not line:
        return 1
    plan = json.loads(line)
    there = {
        "argv": [moved(word, paths, machine) for word in plan["argv"]],
        "env": {name: moved(value, paths, machine) for name, value in plan["env"].items()},
    }
    return _run(machine, record.hosts, there, plan["argv"][0], urlsplit(plan["url"]).port)


def moved(word: str, paths: Sequence[str], machine: Machine) -> str:
    """Return a word of a command line with the path on the machine in place of that of a file that was sent."""
    option, equals, value = word.partition("=")
    if equals and option.startswith("-"):
        return f"{option}={moved(value, paths, machine)}"
    is_sent = any(word == path or word.startswith(f"{path}/") for path in paths)
    is_above = len(word) > 1 and any(path.startswith(f"{word.rstrip('/')}/") for path in paths)
    return machine.sent(word) if word.startswith("/") and (is_sent or is_above) else word


def _run(machine: Machine, hosts: Path, plan: Mapping[str, object], python: str, port: int | None) -> int:
    argv = machine.ssh(hosts, [python, "-I", "-S", machine.sent(str(INIT))], tunnel=port)

    def begin(connection: subprocess.Popen[bytes], pipe: IO[bytes]) -> Stdin:
        pipe.write(json.dumps(plan).encode() + b"\n")
        pipe.flush()
        return lambda _: None, connection.terminate

    status = run_in_place(argv, begin=begin)
    if status == LOST:
        write_output(f"The connection to the machine {machine.name} ({machine.host}) was lost.\n".encode())
        return 1
    return status


def _send(machine: Machine, hosts: Path, paths: Sequence[str]) -> None:
    """Send files and folders, and compare the hashes of what has arrived.

    Raises:
        Unavailable: the transfer fails, or a file has not arrived whole.
    """
    _check(machine, subprocess.run(machine.rsync(hosts, paths, machine.root), capture_output=True, check=False))
    lines = "".join(f"{_sha256(file)}  {machine.sent(str(file))}\n" for file in _files(paths))
    compare = machine.ssh(hosts, ["sha256sum", "--check", "--quiet", "--strict", "-"])
    _check(machine, subprocess.run(compare, input=lines.encode(), capture_output=True, check=False))


def _check(machine: Machine, done: subprocess.CompletedProcess[bytes]) -> None:
    if done.returncode != 0:
        output = (done.stdout + done.stderr).decode("utf-8", "replace").strip()[-_TAIL:]
        message = f"The files of the model did not arrive whole at the machine {machine.name}: {output}"
        raise Unavailable(message, cure="Try again, or enlarge disk_gib in the entry.", code="transfer_failed")


def _files(paths: Sequence[str]) -> Iterator[Path]:
    for path in map(Path, paths):
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file for file in files if file.is_file() and "__pycache__" not in file.parts)


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


if __name__ == "__main__":
    run_launcher(launch)
