"""Weights that a worker brings itself: from S3 with their bytes in the run's progress, and by a recipe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.bucket import SECRET, LoopbackBucket, serve_bucket
from tests.support.processes import PATIENCE_S
from tests.support.stack import Stack, running_stack
from vlmhyperbench.domain.recipes import QUANTIZER
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench.wire.live import Progress
from vlmhyperbench_tiny_doc_vlm import path

GGUF, MMPROJ = "tiny-doc-vlm-q8_0.gguf", "tiny-doc-vlm-mmproj-f16.gguf"
IN_S3 = (
    "backends: [llamacpp]\nengine_params: {n_ctx: 1024, parallel: 2, threads: 1}\ns3: {prefix: 's3://models/tiny'}\n"
)
MADE = "backends: [llamacpp]\nengine_params: {n_ctx: 1024, parallel: 2, threads: 1}\n"


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackBucket]:
    with serve_bucket(tmp_path_factory.mktemp("s3")) as served:
        served.put("models/tiny", {name: path(name, "0.2").read_bytes() for name in (GGUF, MMPROJ)})
        yield served


@pytest.fixture(scope="module")
def stack(registries: Path, bucket: LoopbackBucket) -> Iterator[Stack]:
    files = f"files: {{weights: {GGUF}, mmproj: {MMPROJ}}}\n"
    (registries / "models" / "tiny-in-s3.yaml").write_text(IN_S3 + files)
    (registries / "models" / "tiny-made.yaml").write_text(MADE + "recipe: {source: tiny-doc-vlm-0.2, quantize: Q8_0}\n")
    with running_stack(registries) as running:
        bucket.store_secrets(running.home.root / "secrets")
        yield running


def cli(stack: Stack, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return subprocess.run(
        [sys.executable, "-m", "vlmhyperbench.cli.main", *arguments],
        env={**environment, "VLMHB_HOME": str(stack.home.root), "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def data_of(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["data"]


def entry(model: str) -> RunEntry:
    documents = {"name": "synthetic-documents", "params": {"documents": 4}}
    return RunEntry.model_validate({"target": {"model": model}, "task": "document-qa", "dataset": documents})


def answers(stack: Stack, run_id: Any) -> dict[str, str | None]:
    return {sample.key: sample.text for sample in stack.client.runs.get(run_id).samples()}


def test_a_worker_fetches_from_s3_while_the_run_shows_the_bytes(stack: Stack, bucket: LoopbackBucket) -> None:
    fetched = data_of(cli(stack, "models", "fetch", "tiny-in-s3", "--json"))
    assert "s3:\n  prefix: s3://models/tiny\n  version: " in Path(fetched["file"]).read_text()
    data_of(cli(stack, "models", "remove", "tiny-in-s3", "--json"))
    bucket.holds_after = bucket.sent + 800_000
    run = stack.client.runs.create(entry("tiny-in-s3"))
    seen: list[Progress] = []
    is_fetching = threading.Event()

    def note(progress: Progress) -> None:
        if progress.stage == "weights":
            seen.append(progress)
            is_fetching.set()

    follower = threading.Thread(target=lambda: run.wait(progress=note))
    follower.start()
    try:
        assert is_fetching.wait(PATIENCE_S), stack.logs()
        shown = cli(stack, "show", str(run.id))
    finally:
        bucket.release.set()
        follower.join()
    total = sum(path(name, "0.2").stat().st_size for name in (GGUF, MMPROJ))
    assert (seen[0].unit, seen[0].total) == ("bytes", total)
    assert 0 <= seen[0].done < total
    assert f"/{total / 2**20:.1f} MiB" in shown.stdout
    ended = stack.wait(run.id)
    assert (ended.state, ended.failed) == ("SUCCEEDED", 0), stack.logs()
    assert SECRET not in stack.logs() + ended.spec.model_dump_json()


def test_a_worker_makes_what_a_recipe_says_and_the_answers_are_those_of_the_shipped_file(stack: Stack) -> None:
    pinned = data_of(cli(stack, "models", "fetch", "tiny-made", "--json"))
    data_of(cli(stack, "models", "remove", "tiny-made", "--json"))
    assert pinned["name"] == "tiny-made"
    made = stack.wait(stack.client.runs.create(entry("tiny-made")).id)
    assert (made.state, made.failed) == ("SUCCEEDED", 0), stack.logs()
    shipped = stack.wait(stack.client.runs.create(entry("tiny-doc-vlm-0.2-q8")).id)
    assert answers(stack, made.id) == answers(stack, shipped.id)
    target = made.spec.target
    assert isinstance(target, ModelTarget)
    assert target.recipe is not None
    assert target.recipe.quantizer == QUANTIZER
    assert [file.role for file in target.recipe.sources] == ["mmproj", "weights"]
    [(engine,)] = stack.query("SELECT engine FROM claim WHERE run_id = %s AND engine IS NOT NULL", made.id)
    assert engine["weights_sha256"] == {file.role: file.sha256 for file in target.files}


def test_a_recipe_whose_source_is_made_itself_is_refused_with_the_cure(stack: Stack) -> None:
    own = stack.home.root / "registries" / "models" / "made-twice.yaml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(MADE + "recipe: {source: tiny-made, quantize: Q4_0}\n")
    refused = cli(stack, "models", "fetch", "made-twice", "--json")
    own.unlink()
    assert refused.returncode == 2
    assert "made by a recipe itself" in refused.stdout
