"""`python -m vlmhyperbench.environments.apptainer_run ORDER PATH…`: run an engine in an Apptainer container.

The container shares the machine's network, so the engine listens on loopback. When this process ends, however it ends,
the stdin of the container's first process closes, and the engine ends with it.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import IO

from vlmhyperbench.domain.environments import ApptainerSpec
from vlmhyperbench.environments.apptainer_command import execute
from vlmhyperbench.environments.standing_in import INIT, Order, Stdin, gpus, run_in_place, run_launcher
from vlmhyperbench_sdk.protocols import LOOPBACK

_GIB = 2**30
_INHERITED = ("PATH", "HOME", "USER", "TMPDIR", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
"""What Apptainer itself needs; nothing of it reaches the engine."""


def launch(order: Order, paths: list[str]) -> int:
    """Run the engine; return its exit status, or 128 plus the number of the signal that killed it."""
    spec = ApptainerSpec(**order.spec)
    marker = json.loads(Path(order.marker).read_text(encoding="utf-8"))
    argv = execute(
        Path(marker["image_file"]),
        [spec.python, "-I", "-S", str(INIT)],
        paths=[*paths, str(INIT)],
        options=_options(spec),
    )
    variables = {name: os.environ[name] for name in _INHERITED if name in os.environ}

    def begin(container: subprocess.Popen[bytes], pipe: IO[bytes]) -> Stdin:
        def pass_on(piece: bytes) -> None:
            pipe.write(piece)
            pipe.flush()

        environment = {"kind": "apptainer", "image": marker["image"], "is_isolated": False, "gpus": list(gpus())}
        order.state(host=LOOPBACK, pid=container.pid, environment=environment)
        return pass_on, pipe.close

    return run_in_place(argv, begin=begin, env=variables)


def _options(spec: ApptainerSpec) -> list[str]:
    """Return the limits and the GPUs; Apptainer ends with an error where the machine lets it set no limit."""
    options: list[str] = []
    if spec.memory_gib is not None:
        size = str(int(spec.memory_gib * _GIB))
        options += ["--memory", size, "--memory-swap", size]
    if spec.cpus is not None:
        options += ["--cpus", f"{spec.cpus:g}"]
    if spec.max_processes is not None:
        options += ["--pids-limit", str(spec.max_processes)]
    chosen = gpus()
    if chosen:
        options += ["--nv"]
    if chosen and chosen != ("all",):
        options += ["--env", f"CUDA_VISIBLE_DEVICES={','.join(chosen)}", "--env", "CUDA_DEVICE_ORDER=PCI_BUS_ID"]
    return options


if __name__ == "__main__":
    run_launcher(launch)
