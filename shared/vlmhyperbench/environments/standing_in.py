"""What every launcher of a container does in the engine's place: say where it is, pass the plan on, end as it ends.

The other side is `vlmhyperbench_gateway.launching`; between the two stand `vlmhyperbench_sdk.gateway`'s rules.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from vlmhyperbench.errors import VlmHyperBenchError

INIT = Path(__file__).with_name("container_init.py")
"""What runs first in the container, mounted there."""

ABOUT = """\
import importlib.metadata as m, json, platform
packages = {d.metadata["Name"]: d.version for d in m.distributions() if d.metadata["Name"]}
print(json.dumps([platform.python_version(), packages]))
"""
"""Program with which an image's interpreter lists its packages."""

_PIECE = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The launcher's first argument, as JSON; the others are paths of files that the engine reads."""

    spec: dict[str, Any]
    """The pinned environment."""
    marker: str
    """Path of the marker of the environment, whose packages are stated."""

    def argv(self, module: str) -> tuple[str, ...]:
        """Return the launcher's command line."""
        return (sys.executable, "-m", module, json.dumps(asdict(self)))

    def state(self, *, host: str, pid: int, environment: dict[str, Any]) -> None:
        """Tell the gateway where the engine will run."""
        packages = json.loads(Path(self.marker).read_text(encoding="utf-8"))["packages"]
        placed = {"host": host, "pid": pid, "packages": packages, "environment": environment}
        print(json.dumps(placed), flush=True)


def run_launcher(launch: Callable[[Order, list[str]], int]) -> NoReturn:
    """Run a launcher with this process's arguments, and end as the engine has ended."""
    order, paths = Order(**json.loads(sys.argv[1])), sys.argv[2:]
    try:
        status = launch(order, paths)
    except VlmHyperBenchError as error:
        print(json.dumps({"error": error.message, "cure": error.cure, "code": error.code}), flush=True)
        status = 1
    sys.stdout.flush()
    end_with(status)


def end_with(status: int) -> NoReturn:
    """End this process with the status of the engine, by the same signal if one killed it (128 and its number)."""
    if status > 128 and status - 128 in {int(number) for number in signal.valid_signals()}:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        number = status - 128
        if number not in {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(status)  # threads may wait for pipes


def pass_stdin(write: Callable[[bytes], object], close: Callable[[], object]) -> None:
    """Pass this process's stdin on until it closes, which is the end of the gateway."""
    while piece := os.read(0, _PIECE):
        write(piece)
    close()


def write_output(piece: bytes) -> None:
    """Write output of the engine to stdout, at once."""
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def gpus() -> tuple[str, ...]:
    """Return the GPUs that are left to this process: ids as in `CUDA_VISIBLE_DEVICES`, or `all`; empty without any."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return ("all",) if Path("/dev/nvidiactl").exists() else ()
    return tuple(part for word in chosen.split(",") if (part := word.strip()) not in {"", "-1"})


def user() -> str:
    """Return user and group of a container's processes: those of this process, or nobody's where it is root."""
    return f"{os.geteuid()}:{os.getegid()}" if os.geteuid() != 0 else "65534:65534"


def is_of_a_running_process(owner: str) -> bool:
    """Return whether the process that `owner_of` described still runs, or cannot be judged from here."""
    boot, namespace, pid, started = owner.split("/")
    if (boot, namespace) != (_boot(), _namespace()):
        return boot == _boot()  # a process of another namespace cannot be seen; one of an earlier boot has ended
    return started == _started(int(pid))


def owner_of(pid: int) -> str:
    """Return the boot of the machine, the namespace of processes, the id of a process and when it was started."""
    return "/".join((_boot(), _namespace(), str(pid), _started(pid) or ""))


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)


def _started(pid: int) -> str | None:
    """Return when a process was started, in ticks since the boot; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except FileNotFoundError:
        return None
    return fields[19] if fields[0] != "Z" else None
