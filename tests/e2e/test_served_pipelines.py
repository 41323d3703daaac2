"""A pipeline at a URL: a run through it gets the answers of the run of the pipeline, and `load` measures it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import PATIENCE_S
from vlmhyperbench.registry.schemas import RunEntry

SAMPLES, LOADED = 8, 6
KEY = "a key for clients of the pipeline"
COMMAND = Path(sys.executable).with_name("vlmhyperbench")
WRITERS = {"first": {"tokens": 6}, "second": {"tokens": 9}, "last": {"tokens": 12}}
PIPELINE = {
    "description": "For tests.",
    "stages": [
        {
            "id": "read",
            "type": "multi",
            "models": ["first", {"model": "second", "generation": {"max_tokens": 7}}],
            "aggregation": {"type": "concat"},
            "output_mode": "question_and_answer",
        },
        {"id": "write", "type": "single", "model": "last", "input_from": "read", "instructions": "Rewrite."},
    ],
}


@pytest.fixture(scope="module")
def registries(registries: Path) -> Path:
    """Add engines that answer the same request with the same words, and a pipeline of them."""
    for name, params in WRITERS.items():
        entry = {
            "description": "No model.",
            "backends": ["simulated"],
            "engine_params": {"ttft_ms": 1, "gap_ms": 0, "usage": "always", **params},
        }
        (registries / "models" / f"{name}.yaml").write_text(json.dumps(entry))
    (registries / "pipelines").mkdir(exist_ok=True)
    (registries / "pipelines" / "writers.yaml").write_text(json.dumps(PIPELINE))
    return registries


@contextmanager
def serving(*words: str) -> Iterator[str]:
    """Run `pipeline serve` beside the stack, and yield its URL."""
    process = subprocess.Popen(
        [str(COMMAND), "pipeline", "serve", *words, "--api-key-env", "THE_KEY", "--json", "--quiet"],
        env={**os.environ, "THE_KEY": KEY},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["data"]["url"]
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0


def loaded(url: str) -> dict[str, Any]:
    """Measure the pipeline by `load`, and return its result."""
    words = ("--model", "writers", "--api-key-env", "THE_KEY", "--requests", str(LOADED), "--concurrency", "2")
    done = subprocess.run(
        [str(COMMAND), "load", url, *words, "--output-tokens", "4", "--json", "--quiet"],
        env={**os.environ, "THE_KEY": KEY},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stdout, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)["data"]
    return result


def answered(stack: Any, target: dict[str, Any]) -> list[str]:
    given = {
        "target": target,
        "task": "synthetic-questions",
        "dataset": {"name": "synthetic-questions", "limit": SAMPLES},
        "metrics": ["exact_match"],
        "reports": ["json"],
    }
    run = stack.wait_without_pauses(stack.client.runs.create(RunEntry.model_validate(given)).id)
    assert run.state == "SUCCEEDED", run.reason
    return [result.text for result in stack.client.results(run_id=run.id, limit=100).items]


def test_a_run_through_the_url_of_a_pipeline_has_the_answers_of_the_run_of_the_pipeline(stack: Any) -> None:
    folder = stack.home.root / "secrets"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "PIPELINE").write_text(KEY)
    (folder / "PIPELINE").chmod(0o600)
    direct = answered(stack, {"pipeline": "writers"})
    with serving("writers") as url:
        target = {"endpoint": url, "model_name": "writers", "engine_params": {"api_key_secret": "PIPELINE"}}
        through = answered(stack, target)
        load = loaded(url)
    assert len(set(direct)) == SAMPLES
    assert through == direct
    assert (load["requests"]["ok"], load["errors"]) == (LOADED, {}), load
    assert load["metrics"]["latency_ms"]["n"] == LOADED
