"""What every launcher of a container does in the engine's place: say where it is, pass the plan on, end as it ends.

The other side is `vlmhyperbench_gateway.launching`; between the two stand `vlmhyperbench_sdk.gateway`'s rules.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, NoReturn, TypeAlias

from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.processes import tied

INIT = Path(__file__).with_name("container_init.py")
"""What runs first in the container, mounted there."""

ABOUT = """\
import importlib.metadata as m, json, platform
packages = {d.metadata["Name"]: d.version for d in m.distributions() if d.metadata["Name"]}
print(json.dumps([platform.python_version(), packages]))
"""
"""Program with which an image's interpreter lists its packages."""

Stdin: TypeAlias = tuple[Callable[[bytes], object], Callable[[], object]]
"""What takes this process's stdin, and what ends the engine once that has closed."""

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


def run_in_place(
    argv: Sequence[str],
    *,
    begin: Callable[[subprocess.Popen[bytes], IO[bytes]], Stdin],
    env: Mapping[str, str] | None = None,
) -> int:
    """Run a command that runs the engine; return its exit status, or 128 and the number of the signal that killed it.

    Args:
        argv: The command; SIGTERM is passed on to it, and its output is the engine's.
        begin: Gets the process and its stdin once it has started, and returns what becomes of this process's stdin.
        env: The only variables of the command; None: those of this process.
    """
    with subprocess.Popen(
        tied(argv),
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as child:
        pipe, output = child.stdin, child.stdout
        if pipe is None or output is None:
            raise RuntimeError("The command has no pipes.")
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        threading.Thread(target=pass_stdin, args=begin(child, pipe), daemon=True).start()
        while piece := os.read(output.fileno(), _PIECE):
            write_output(piece)
        status = child.wait()
    return status if status >= 0 else 128 - status


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
