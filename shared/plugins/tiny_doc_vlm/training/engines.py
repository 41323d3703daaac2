"""The engines that the parity test compares, and how to start and stop their servers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import httpx2

from vlmhyperbench_llamacpp.adapter import LlamaCpp
from vlmhyperbench_sdk.errors import Unavailable
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import EngineLaunch
from vlmhyperbench_tiny_doc_vlm import CONTEXT_TOKENS, NAME

PARALLEL_REQUESTS = 4
START_S, END_S = 600, 30
"""Timeouts for a server's start and end."""
POLL_S = 0.5
_OFFLINE = {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}


class EngineFailedError(Unavailable):
    """A server did not become ready; the message ends with its last output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A row of the parity table."""

    label: str
    kind: str
    """`transformers`, `vllm` or `llamacpp`; the first two are also names of environments."""
    weights: str = "model.safetensors"
    must_agree: bool = True
    """Whether its answers must agree with those of the first engine; engines with fewer bits may differ."""

    def missing(self, environments: Path) -> str:
        """Return the reason why it cannot run on this machine; empty if it can."""
        if self.kind == "llamacpp":
            return "" if find_spec("xllamacpp") else "this Python has no xllamacpp"
        python = _program(environments, self.kind, "python")
        return "" if python.exists() else f"not installed: there is no {python}"

    def model_name(self, folder: Path) -> str:
        """Return the model's name in requests."""
        return str(folder) if self.kind == "transformers" else NAME

    def launch(self, folder: Path, environments: Path, *, port: int) -> EngineLaunch:
        """Return the command that starts its server with the files of a version.

        Raises:
            KeyError: there is no engine of this kind.
        """
        if self.kind == "llamacpp":
            files = {"weights": folder / self.weights, "mmproj": folder / f"{NAME}-mmproj-f16.gguf"}
            request = LoadRequest(
                model=NAME,
                backend_class="llamacpp",
                files={role: str(file) for role, file in files.items()},
                engine_params={"n_ctx": CONTEXT_TOKENS, "parallel": PARALLEL_REQUESTS, "threads": 1},
            )
            # An adapter may return a remote engine instead; llama.cpp's adapter returns a launch.
            return cast("EngineLaunch", LlamaCpp().plan_engine(request, port=port, python=sys.executable))
        address = ("--host", "127.0.0.1", "--port", str(port), "--dtype", "float32")
        argv = {
            "transformers": ("transformers", "serve", str(folder), *address, "--device", "cpu"),
            "vllm": (
                *("python", "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), *address),
                *("--served-model-name", NAME, "--max-model-len", str(CONTEXT_TOKENS)),
                *("--max-num-seqs", str(PARALLEL_REQUESTS), "--enforce-eager"),
            ),
        }[self.kind]
        # By default vLLM would use one core, and reserve a gigabyte more than this small model needs.
        env = {**_OFFLINE, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        program = _program(environments, self.kind, argv[0])
        return EngineLaunch(argv=(str(program), *argv[1:]), url=f"http://127.0.0.1:{port}", env=env)


F16 = Engine(label="llama.cpp, F16", kind="llamacpp", weights=f"{NAME}-f16.gguf")
ENGINES = (
    Engine(label="transformers, float32", kind="transformers"),
    Engine(label="vLLM on CPU, float32", kind="vllm"),
    F16,
    Engine(label="llama.cpp, Q8_0", kind="llamacpp", weights=f"{NAME}-q8_0.gguf", must_agree=False),
    Engine(label="llama.cpp, Q4_0", kind="llamacpp", weights=f"{NAME}-q4_0.gguf", must_agree=False),
)


@contextmanager
def serve(engine: Engine, folder: Path, environments: Path) -> Iterator[str]:
    """Run an engine's server and yield its URL once it is ready.

    Raises:
        EngineFailedError: it ended, or was not ready in time.
    """
    plan = engine.launch(folder, environments, port=_free_port())
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            plan.argv, env={**os.environ, **plan.env}, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            deadline = time.monotonic() + START_S
            while not _is_ready(plan.url + plan.ready_path):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    output = log.read().decode(errors="replace")[-2000:]
                    raise EngineFailedError(f"{engine.label} is not ready (exit {process.poll()}):\n{output}")
                time.sleep(POLL_S)
            yield plan.url
        finally:
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # vLLM's engine is a process of its own.
                process.wait()


def _program(environments: Path, environment: str, program: str) -> Path:
    return environments / environment / "bin" / program


def _is_ready(url: str) -> bool:
    try:
        return bool(httpx2.get(url, timeout=10).status_code == 200)
    except httpx2.HTTPError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
