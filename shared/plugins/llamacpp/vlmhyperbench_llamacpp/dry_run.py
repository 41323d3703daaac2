"""Ask llama.cpp itself what a load would take: its own dry run reads the header and sizes every buffer, without memory.

The dry run is llama.cpp's fitting of parameters (`common_fit_params`). It prints what the model, its context and its
compute buffers take on each device, in whole MiB. The process is ended once that is printed, before anything is loaded.
It leaves the projector out, so the projector is added from its file.
"""

from __future__ import annotations

import re
import subprocess
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from threading import Timer
from typing import Final

from vlmhyperbench_sdk.errors import Unavailable
from vlmhyperbench_sdk.protocols import MemoryEstimate

TIMEOUT_S: Final = 60.0
_MIB: Final = 1024**2
_ROW: Final = re.compile(r"memory_breakdown_print: \|\s+- (?P<device>[^|]+?)\s*\|.*?\d+ = +(\d+) \+ +(\d+) \+ +(\d+)")
_END: Final = ("common_fit_params:", "common_params_fit_impl: projected", "failed to fit")
_TAIL: Final = 5
_PROCESSOR: Final = "CPU"
"""Begin of the names of the processor's own buffers."""


def dry_run(
    argv: Sequence[str], *, mmproj: Path | None, is_on_device: bool, process_bytes: int, knobs: tuple[str, ...]
) -> MemoryEstimate:
    """Run llama.cpp's dry run, and return what it states.

    Args:
        argv: Command that starts the shim with `--dry-run`.
        mmproj: Image projector, which the dry run leaves out.
        is_on_device: Whether the projector is loaded on an accelerator.
        process_bytes: What the server takes without a model.
        knobs: Parameters of the engine that change the need.

    Raises:
        Unavailable: the engine is not installed, or it printed no sizes; the message ends with what it printed.
    """
    try:
        rows, tail = _output(argv)
    except OSError as error:
        raise Unavailable(f"llama.cpp cannot be started for a dry run: {error}.") from error
    if not rows:
        told = " ".join(tail) or "it printed nothing"
        raise Unavailable(f"The dry run of llama.cpp printed no sizes: {told}", cure="Use the static estimate.")
    projector = mmproj.stat().st_size if mmproj is not None else 0
    device = sum(sum(sizes) for name, sizes in rows.items() if not is_host(name)) * _MIB
    host = sum(sum(sizes) for name, sizes in rows.items() if is_host(name)) * _MIB
    is_on_device = is_on_device and device > 0  # no accelerator of this machine was offered any layer
    weights, cache, compute = (sum(sizes[part] for sizes in rows.values()) * _MIB for part in range(3))
    return MemoryEstimate(
        device_bytes=device + (projector if is_on_device else 0),
        host_bytes=host + process_bytes + (0 if is_on_device else projector),
        source="dry_run",
        knobs=knobs,
        parts={
            "weights": weights,
            "KV cache": cache,
            "compute buffers": compute,
            "vision tower": projector,
            "process": process_bytes,
        },
    )


def read_rows(lines: Iterable[str]) -> Mapping[str, tuple[int, int, int]]:
    """Return device → MiB of model, context and compute buffers, as the first table of the output states them.

    The weights that the processor keeps in another order (`CPU_REPACK`) are left out: their pages in the mapped file
    are not read again, and the machine drops them.
    """
    rows: dict[str, tuple[int, int, int]] = {}
    for line in lines:
        if (found := _ROW.search(line)) is not None:
            model, context, compute = (int(found[part]) for part in (2, 3, 4))
            name = found["device"].split(" ")[0]
            rows.setdefault(name, (0 if name.startswith(_PROCESSOR) else model, context, compute))
        elif rows and any(end in line for end in _END):
            break
    return rows


def is_host(name: str) -> bool:
    """Return whether a row is of the machine's memory, and not of an accelerator's."""
    return name == "Host" or name.startswith(_PROCESSOR)


def _output(argv: Sequence[str]) -> tuple[Mapping[str, tuple[int, int, int]], list[str]]:
    """Read the rows, then end the process; also return the last lines, which explain a failure."""
    tail: deque[str] = deque(maxlen=_TAIL)
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, errors="replace"
    ) as process:
        timer = Timer(TIMEOUT_S, process.kill)
        timer.start()
        try:
            return read_rows(_kept(process.stdout or (), tail)), list(tail)
        finally:
            timer.cancel()
            process.kill()


def _kept(lines: Iterable[str], tail: deque[str]) -> Iterable[str]:
    for line in lines:
        tail.append(line.strip())
        yield line
