"""A model that a user loads is loaded by a worker, used by the next run as it is, and unloaded when the user asks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import PATIENCE_S
from tests.support.stack import Stack, running_stack
from vlmhyperbench_tiny_doc_vlm import path

MODELS = """\
version: 1
models_directory: .
defaults: {n_ctx: 1024, threads: 1}
models:
  held: {file: held.gguf}
  vanishing: {file: vanishing.gguf}
  martian: {file: martian.gguf}
"""


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two models with their models.yaml."""
    folder = tmp_path_factory.mktemp("gguf")
    for name in ("held", "vanishing"):
        shutil.copy(path("tiny-doc-vlm-q8_0.gguf", "0.2"), folder / f"{name}.gguf")
    known = (folder / "held.gguf").read_bytes()
    at = known.index(b"llama", known.index(b"general.architecture"))
    (folder / "martian.gguf").write_bytes(known[:at] + b"marsa" + known[at + 5 :])
    (folder / "models.yaml").write_text(MODELS)
    return folder


@pytest.fixture(scope="module")
def stack(registries: Path, gguf: Path) -> Iterator[Stack]:
    with running_stack(registries) as running:
        file = gguf / "models.yaml"
        assert cli(running, "models", "import", str(file)).returncode == 0
        yield running


def cli(stack: Stack, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "vlmhyperbench.cli.main", *arguments],
        env={**os.environ, "VLMHB_HOME": str(stack.home.root), "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def state(stack: Stack, command: str, name: str) -> dict[str, Any]:
    done = cli(stack, "models", command, name, "--json")
    assert done.returncode == 0, (done.stdout, done.stderr)
    data: dict[str, Any] = json.loads(done.stdout)["data"]
    return data


def test_a_model_is_loaded_by_a_worker_and_unloaded_again(stack: Stack) -> None:
    loaded = state(stack, "load", "held")
    assert (loaded["status"], loaded["reason"]) == ("loaded", None)
    assert loaded["worker"] is not None
    assert state(stack, "load", "held")["status"] == "loaded"
    (name, peak), *others = state(stack, "estimate", "held")["measured"].items()
    assert (name, others) == (stack.query("SELECT device_name FROM memory_peak")[0][0], [])
    assert peak > 20 * 2**20  # its process alone has more
    unloaded = state(stack, "unload", "held")
    assert (unloaded["status"], unloaded["worker"]) == ("available", None)


def test_a_model_of_an_architecture_that_llama_cpp_does_not_know_is_refused_by_its_name(stack: Stack) -> None:
    done = cli(stack, "models", "load", "martian", "--json")
    assert done.returncode == 3, (done.stdout, done.stderr)
    data = json.loads(done.stdout)["data"]
    assert (data["status"], data["shortage"], "'marsa'" in data["reason"]) == ("error", None, True)


def test_a_model_that_is_no_gguf_or_is_not_there_is_not_loaded(stack: Stack, gguf: Path) -> None:
    for change in (lambda: (gguf / "vanishing.gguf").write_bytes(b"GGUF"), (gguf / "vanishing.gguf").unlink):
        change()
        assert cli(stack, "models", "load", "vanishing", "--json").returncode == 3
    assert cli(stack, "models", "unload", "vanishing", "--json").returncode == 3
