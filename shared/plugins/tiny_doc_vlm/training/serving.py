"""llama.cpp's server with the files of a version or of an export, in 16 bits, while a block runs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import httpx2

from vlmhyperbench_llamacpp.adapter import LlamaCpp
from vlmhyperbench_sdk.errors import Unavailable
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import EngineLaunch
from vlmhyperbench_tiny_doc_vlm import CONTEXT_TOKENS, NAME

PARALLEL_REQUESTS = 4
START_S, END_S = 60, 30
"""Timeouts for the server's start and end."""
POLL_S = 0.1


class EngineFailedError(Unavailable):
    """The server did not become ready; the message ends with its last output."""


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Run the server with the GGUF files of a folder, and yield its URL once it is ready.

    Raises:
        EngineFailedError: it ended, or was not ready in time.
        NotFound: a file is missing.
    """
    files = {"weights": folder / f"{NAME}-f16.gguf", "mmproj": folder / f"{NAME}-mmproj-f16.gguf"}
    request = LoadRequest(
        model=NAME,
        backend_class="llamacpp",
        files={role: str(file) for role, file in files.items()},
        engine_params={"n_ctx": CONTEXT_TOKENS, "parallel": PARALLEL_REQUESTS, "threads": 1},
    )
    # An adapter may return a remote engine instead; llama.cpp's adapter returns a launch.
    plan = cast("EngineLaunch", LlamaCpp().plan_engine(request, port=_free_port(), python=sys.executable))
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(plan.argv, env={**os.environ, **plan.env}, stdout=log, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + START_S
            while not _is_ready(plan.url + plan.ready_path):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    output = log.read().decode(errors="replace")[-2000:]
                    raise EngineFailedError(f"llama.cpp is not ready (exit {process.poll()}):\n{output}")
                time.sleep(POLL_S)
            yield plan.url
        finally:
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _is_ready(url: str) -> bool:
    try:
        return bool(httpx2.get(url, timeout=10).status_code == 200)
    except httpx2.HTTPError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
