"""Models of a served pipeline that do not fit are loaded smaller, which is told, or refused by a table."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.shared.cli.test_sequential_serving import HUGE, READERS, engine_processes, home
from tests.shared.cli.test_serve import Serving
from tests.support.processes import PATIENCE_S
from vlmhyperbench.cli import exits
from vlmhyperbench.cli.main import main
from vlmhyperbench.cli.registry import open_catalogue
from vlmhyperbench.data.ladders import open_ladder
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.data.pipeline_memory import execution_here
from vlmhyperbench.data.usable_memory import usable_memory
from vlmhyperbench.domain.fallbacks import MARGIN_BYTES, MachineMemory
from vlmhyperbench.domain.pipelines import asked_models
from vlmhyperbench.errors import DoesNotFit
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.served_pipelines import pin_served
from vlmhyperbench.settings import Settings

MIB = 2**20
LONG = {"n_ctx": 524_288, "n_ubatch": 64, "n_batch": 64, "threads": 1}
BODY = {"model": "p", "messages": [{"role": "user", "content": "total?"}], "max_tokens": 8}


@contextmanager
def limited(folder: Path, usable: int, *flags: str) -> Iterator[subprocess.Popen[str]]:
    """Run `limited_serving` in a home."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.shared.cli.limited_serving", str(usable), *flags],
        env={**os.environ, "VLMHB_HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)


def one_reader(folder: Path, **engine_params: int) -> Path:
    """Make a home whose pipeline p has one model."""
    home(folder, "auto")
    stage = {"id": "read", "type": "single", "model": {"model": READERS[0], "engine_params": engine_params}}
    entry = {"description": "For tests.", "stages": [stage]}
    (folder / "registries" / "pipelines" / "p.yaml").write_text(json.dumps(entry))
    return folder


def smallest_need(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return what the model needs, by its estimate, when nothing is left to give up without a loss."""
    monkeypatch.setenv("VLMHB_HOME", str(folder))
    (asked,) = asked_models(pin_served(open_catalogue(), InstalledPlugins(), "p").target)
    cache = ModelCache(folder / "models", max_bytes=2**30)
    ladder = open_ladder(asked.model.target, cache, lambda: MachineMemory(devices=(), host=0))
    assert ladder is not None
    with pytest.raises(DoesNotFit) as refused:
        ladder.fit()
    facts: Any = refused.value.facts
    return int((facts["rows"][0]["need_bytes"] - MARGIN_BYTES) / 1.1)


def test_a_model_that_does_not_fit_is_loaded_smaller_and_start_and_answers_say_so(tmp_path: Path) -> None:
    with limited(one_reader(tmp_path, parallel=4, **LONG), 1_100 * MIB) as process:
        served = Serving(process)
        (step,) = served.data["fallbacks"]
        assert (step["model"], step["rung"], step["before"]) == (READERS[0], "fewer parallel slots", "parallel=4")
        assert not step["is_lossy"]
        status, answer = served.ask("POST", "/chat/completions", served.data["key"], BODY)
        assert (status, answer["vlmhyperbench"]["fallbacks"]) == (200, [step])
        (engine,) = engine_processes(process.pid)
        line = engine.cmdline()
        assert f"parallel={line[line.index('--parallel') + 1]}" == step["after"]


def test_quality_is_given_up_only_where_it_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = one_reader(tmp_path, parallel=1, **{**LONG, "n_ctx": 2 * LONG["n_ctx"]})
    usable = smallest_need(folder, monkeypatch) - MIB
    with limited(folder, usable) as process:
        out, _ = process.communicate(timeout=PATIENCE_S)
        refused = json.loads(out)["data"]
        assert (process.returncode, refused["code"]) == (exits.USAGE, "does_not_fit")
        assert refused["shortage"]["rows"][0]["shortfall_bytes"] > 0
        assert refused["shortage"]["knobs"][0] == {"name": "--allow-lossy", "to": "true", "fixes": True}
        assert "--allow-lossy" in refused["cure"]
    with limited(folder, usable, "--allow-lossy") as process:
        served = Serving(process)
        assert [step["is_lossy"] for step in served.data["fallbacks"]] == [True]
        status, answer = served.ask("POST", "/chat/completions", served.data["key"], BODY)
        assert (status, answer["vlmhyperbench"]["fallbacks"]) == (200, list(served.data["fallbacks"]))


def test_models_that_do_not_fit_together_are_loaded_one_after_the_other_which_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = home(tmp_path, "auto", n_ctx=1024, threads=1)
    monkeypatch.setenv("VLMHB_HOME", str(folder))
    target = pin_served(open_catalogue(), InstalledPlugins(), "p").target
    margin = Settings.load().memory_margin
    _, needs = execution_here(target, ModelCache(folder / "models", max_bytes=2**30), usable_memory(), margin=margin)
    with limited(folder, sum(need or 0 for need in needs.values()) - 1) as process:
        served = Serving(process)
        told = [(step["model"], step["rung"]) for step in served.data["fallbacks"]]
        assert told[:1] == [(None, "sequential mode")]
        status, answer = served.ask("POST", "/chat/completions", served.data["key"], BODY)
        assert (status, answer["vlmhyperbench"]["fallbacks"]) == (200, list(served.data["fallbacks"]))
        assert [part["name"] for part in answer["usage"]["members"]] == [*READERS]


def test_the_command_prints_the_table_where_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VLMHB_HOME", str(home(tmp_path, "persistent", **HUGE)))
    assert main(["pipeline", "serve", "p"]) == exits.USAGE
    out, complaint = capsys.readouterr()
    assert "need\thave\tshortfall" in out
    assert "does not fit" in complaint
    assert "execution_mode: auto or sequential" in out
