"""Compare the memory that is predicted for llama.cpp with what it takes, for models, contexts, slots and cache types.

Usage: python -m benchmarks.llamacpp_memory [FOLDER]    Prints a Markdown table; the aim is 10 %.

FOLDER holds GGUF files; by default those of the packaged tiny model. `static` is computed from the header, with compute
buffers; `dry run` is llama.cpp's own. `buffers` is what the loaded server logs; `RSS` is that of its process, which
has the interpreter too and lacks pages that nothing has touched yet.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import psutil

from vlmhyperbench_llamacpp.adapter import PARAMS, SHIM, LlamaCpp
from vlmhyperbench_llamacpp.compute import estimate_compute
from vlmhyperbench_llamacpp.memory import PROCESS_BYTES
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.gguf import read_header
from vlmhyperbench_sdk.params import read_engine_params
from vlmhyperbench_sdk.protocols import EngineLaunch
from vlmhyperbench_sdk.types import JsonValue
from vlmhyperbench_tiny_doc_vlm import path

MIB = 2**20
COMBINATIONS: tuple[tuple[str, int, int, str], ...] = (
    ("f16", 1024, 1, "f16"),
    ("q8_0", 4096, 4, "f16"),
    ("q4_0", 4096, 2, "q8_0"),
    ("f16", 16_384, 1, "q4_0"),
    ("f16", 32_768, 2, "q8_0"),
    ("q8_0", 8192, 8, "q4_0"),
    ("q4_0", 65_536, 4, "f16"),
    ("f16", 131_072, 2, "q8_0"),
    ("q8_0", 1000, 3, "f32"),
)
"""Weights, context of a slot, slots, type of the cache."""
TALKATIVE = """\
import runpy, signal, sys, xllamacpp
shim = runpy.run_path(sys.argv[0], run_name="shim")
params = shim["_params"](shim["_parse"]())
params.verbosity = 10
server = xllamacpp.Server(params)
print("LISTENING", flush=True)
signal.pause()
"""
_BUFFER = re.compile(r"(\S+) +(model|KV|compute) buffer size = +([0-9.]+) MiB")
_COPY = ("CPU_REPACK", "model")
"""Weights in another order, whose pages in the mapped file the machine may drop."""


def main() -> None:
    """Load each combination, and print a row for it."""
    folder = Path(sys.argv[1]) if sys.argv[1:] else None
    print(f"{datetime.now().astimezone():%Y-%m-%d %H:%M}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}\n")
    print("| weights | context | slots | cache | static MiB | dry run | buffers | static off | dry run off | RSS |")
    print("|---|--:|--:|---|--:|--:|--:|--:|--:|--:|")
    for kind, context, slots, cache in COMBINATIONS:
        file = folder / f"tiny-doc-vlm-{kind}.gguf" if folder else Path(path(f"tiny-doc-vlm-{kind}.gguf", "0.2"))
        params: dict[str, JsonValue] = {"n_ctx": context, "parallel": slots, "threads": 1}
        params |= {"cache_type_k": cache, "cache_type_v": cache}
        load = LoadRequest(model="m", backend_class="llamacpp", files={"weights": str(file)}, engine_params=params)
        static, dry = _predicted(load)
        buffers, rss = _taken(load)
        print(
            f"| {kind} | {context:,} | {slots} | {cache} | {static:.1f} | {dry:.0f} | {buffers:.1f} "
            f"| {static / buffers - 1:+.1%} | {dry / buffers - 1:+.1%} | {rss:.0f} |",
            flush=True,
        )


def _predicted(load: LoadRequest) -> tuple[float, float]:
    """Return what header and dry run say, in MiB, without the process."""
    adapter = LlamaCpp()
    static, dry = adapter.estimate_memory(load), adapter.dry_run(load, python=sys.executable)
    if static is None:
        raise SystemExit(f"There is no estimate for {load.files}.")
    params: Mapping[str, int | float | str] = read_engine_params("llama.cpp", PARAMS, load.engine_params)
    compute = estimate_compute(read_header(Path(load.files["weights"])), params)
    return (static.host_bytes - PROCESS_BYTES + compute) / MIB, (dry.host_bytes - PROCESS_BYTES) / MIB


def _taken(load: LoadRequest) -> tuple[float, float]:
    """Load the model, and return its buffers and the memory of its process, in MiB."""
    launch = LlamaCpp().plan_engine(load, port=0, python=sys.executable)
    if not isinstance(launch, EngineLaunch):
        raise SystemExit("llama.cpp runs elsewhere.")
    arguments = launch.argv[launch.argv.index(str(SHIM)) :]
    argv = [sys.executable, "-I", "-c", f"import sys; sys.argv = {json.dumps(arguments)}\n{TALKATIVE}"]
    sizes: dict[tuple[str, str], float] = {}
    is_listening = False
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as engine:
        try:
            for line in engine.stdout or ():
                if (stated := _BUFFER.search(line)) is not None:
                    buffer, size = (stated[1], stated[2]), float(stated[3])
                    # A model may have several caches; compute buffers may be sized again.
                    sizes[buffer] = size if buffer[1] == "compute" else sizes.get(buffer, 0.0) + size
                is_listening = is_listening or "LISTENING" in line
                if is_listening and any(part == "compute" for _, part in sizes):  # the log has a thread of its own
                    taken = sum(size for buffer, size in sizes.items() if buffer != _COPY)
                    return taken, psutil.Process(engine.pid).memory_info().rss / MIB
        finally:
            engine.kill()
    raise SystemExit(f"The engine ended before it was ready: {sizes}.")


if __name__ == "__main__":
    main()
