"""`python -m vlmhyperbench.environments.rented_run ORDER PATH…`: run an engine on a rented machine, in its place.

Files that are not on the machine yet are sent and verified there. The engine listens on the machine's loopback, and the
same port of this machine leads to it through the SSH connection that runs it. When this process ends, however it ends,
the connection closes, and with it the stdin of the first process there, which ends the engine.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from vlmhyperbench.domain.environments import RentedSpec
from vlmhyperbench.environments.rented_files import send_files
from vlmhyperbench.environments.rented_records import RentedRecord
from vlmhyperbench.environments.ssh import LOST, Machine
from vlmhyperbench.environments.standing_in import INIT, Order, Stdin, run_in_place, run_launcher, write_output
from vlmhyperbench_sdk.protocols import LOOPBACK


def launch(order: Order, paths: list[str]) -> int:
    """Run the engine; return its exit status, or 128 and the number of the signal that killed it."""
    spec, marker = RentedSpec(**order.spec), Path(order.marker)
    asyncio.run(send_files(marker, paths))
    record = RentedRecord.read(marker)
    machine = record.rented
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


if __name__ == "__main__":
    run_launcher(launch)
