"""A pipeline whose models do not fit together is served one model after the other, unless it states `persistent`."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.shared.cli.test_serve import Serving, serving
from tests.support.processes import PATIENCE_S
from tests.support.stack import until
from vlmhyperbench.cli.pipeline_serving import serve
from vlmhyperbench.cli.registry import open_catalogue
from vlmhyperbench.data import pipeline_memory
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.data.pipeline_memory import execution_here
from vlmhyperbench.data.usable_memory import usable_memory
from vlmhyperbench.errors import DoesNotFit
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.served_pipelines import pin_served
from vlmhyperbench_sdk.free_memory import FreeMemory

READERS = ("tiny-doc-vlm-0.2-q8", "tiny-doc-vlm-0.2-q4")
HUGE = {"n_ctx": 8_000_000, "parallel": 64}
"""A cache of terabytes, which nobody allocates here."""


def home(folder: Path, mode: str, *, has_optional: bool = False, **engine_params: int) -> Path:
    optional = {READERS[1]} if has_optional else set()
    models = [{"model": name, "engine_params": engine_params, "optional": name in optional} for name in READERS]
    stage = {"id": "read", "type": "multi", "models": models, "aggregation": {"type": "concat"}}
    path = folder / "registries" / "pipelines" / "p.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"description": "For tests.", "execution_mode": mode, "stages": [stage]}))
    return folder


def engine_processes(pid: int) -> list[psutil.Process]:
    """Return the engines that run below a process."""
    children = [child for child in psutil.Process(pid).children(recursive=True) if child.is_running()]
    return [child for child in children if "--mmproj-offload" in child.cmdline()]


def engines(pid: int) -> list[str]:
    """Return the weights of the engines that run below a process."""
    lines = [engine.cmdline() for engine in engine_processes(pid)]
    return [line[line.index("--model") + 1] for line in lines]


def gateways(pid: int) -> set[int]:
    """Return the processes of the gateways that a process has started."""
    children = psutil.Process(pid).children()
    return {child.pid for child in children if "vlmhyperbench_gateway" in " ".join(child.cmdline())}


def test_a_sequential_pipeline_has_one_model_loaded_at_a_time_and_answers_every_question(tmp_path: Path) -> None:
    body = {"model": "p", "messages": [{"role": "user", "content": "total?"}], "max_tokens": 8}
    with serving(home(tmp_path, "sequential"), "p", command=("pipeline", "serve")) as served:
        key = served.data["key"]
        assert engines(served.process.pid) == []
        with ThreadPoolExecutor(max_workers=3) as pool:
            answers: list[tuple[int, Any]] = list(
                pool.map(lambda _: served.ask("POST", "/chat/completions", key, body), range(3))
            )
        assert [status for status, _ in answers] == [200, 200, 200]
        for _, answer in answers:
            assert [part["name"] for part in answer["usage"]["members"]] == [*READERS]
            models = answer["vlmhyperbench"]["stages"][0]["models"]
            assert not any(model.get("error") for model in models)
        assert len(engines(served.process.pid)) == 1
        before = gateways(served.process.pid)
        killed = min(before - {served.data["pid"]})
        psutil.Process(killed).kill()
        assert eventually_answered(served, body)[0] == 200
        assert killed not in gateways(served.process.pid)
        assert len(gateways(served.process.pid)) == len(before)
        assert len(engines(served.process.pid)) == 1


def eventually_answered(served: Serving, body: object) -> tuple[int, Any]:
    """Ask until what was lost has been started again, and return the first answer; until then it is refused by 503."""

    def answered() -> tuple[int, Any] | None:
        status, answer = served.ask("POST", "/chat/completions", served.data["key"], body)
        if status != 503:
            return status, answer
        assert answer["error"]["code"] == "pipeline_model_lost", answer
        return None

    found: tuple[int, Any] = until(answered, "what was lost", PATIENCE_S)
    return found


def test_a_model_whose_engine_was_killed_is_named_and_loaded_again_for_the_next_question(tmp_path: Path) -> None:
    folder = home(tmp_path, "sequential")
    stage = {"id": "read", "type": "single", "model": READERS[0]}
    entry = {"description": "For tests.", "execution_mode": "sequential", "stages": [stage]}
    (folder / "registries" / "pipelines" / "p.yaml").write_text(json.dumps(entry))
    body = {"model": "p", "messages": [{"role": "user", "content": "total?"}], "max_tokens": 8}
    with serving(folder, "p", command=("pipeline", "serve")) as served:
        key = served.data["key"]
        assert served.ask("POST", "/chat/completions", key, body)[0] == 200
        (engine,) = engine_processes(served.process.pid)
        engine.kill()
        status, failed = served.ask("POST", "/chat/completions", key, body)
        assert (status, failed["error"]["code"]) == (503, "pipeline_model_lost"), failed
        assert READERS[0] in failed["error"]["message"]
        assert served.ask("POST", "/chat/completions", key, body)[0] == 200


def test_auto_chooses_by_the_estimates_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLMHB_HOME", str(home(tmp_path / "small", "auto")))
    cache = ModelCache(tmp_path / "models", max_bytes=2**30)
    small = pin_served(open_catalogue(), InstalledPlugins(), "p").target
    chosen, needs = execution_here(small, cache, usable_memory(), margin=1.2)
    assert (chosen.asked, chosen.mode, chosen.steps) == ("auto", "persistent", ())
    assert chosen.need_bytes == sum(need or 0 for need in needs.values()) < chosen.have_bytes
    monkeypatch.setenv("VLMHB_HOME", str(home(tmp_path / "huge", "auto", **HUGE)))
    huge = pin_served(open_catalogue(), InstalledPlugins(), "p").target
    chosen, _ = execution_here(huge, cache, usable_memory(), margin=1.2)
    assert (chosen.mode, [step.rung for step in chosen.steps]) == ("sequential", ["sequential mode"])


def test_an_optional_model_is_left_out_by_allow_lossy_so_that_the_other_stays_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = home(tmp_path, "persistent", has_optional=True)
    monkeypatch.setenv("VLMHB_HOME", str(folder))
    cache = ModelCache(tmp_path / "models", max_bytes=2**30)
    target = pin_served(open_catalogue(), InstalledPlugins(), "p").target
    chosen, needs = execution_here(target, cache, usable_memory(), margin=1.2)
    together = sum(need or 0 for need in needs.values())
    usable = FreeMemory(host_bytes=together - 1, device_bytes=None, devices=0)
    with pytest.raises(DoesNotFit) as refused:
        execution_here(target, cache, usable, margin=1.2)
    facts: Any = refused.value.facts
    assert [knob["name"] for knob in facts["knobs"]] == ["execution_mode", "limits.allow_lossy"]
    chosen, needs = execution_here(target, cache, usable, margin=1.2, allow_lossy=True)
    assert (chosen.mode, [step.is_lossy for step in chosen.steps]) == ("persistent", [True])
    (dropped,) = pipeline_memory.dropped_of(target, chosen)
    assert [needs[dropped]] == [together - (chosen.need_bytes or 0)]


def test_persistent_that_does_not_fit_is_refused_with_need_and_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLMHB_HOME", str(home(tmp_path, "persistent", **HUGE)))
    with pytest.raises(DoesNotFit) as refused:
        serve("p")
    facts: Any = refused.value.facts
    assert facts["model"] == "p"
    assert facts["rows"][0]["shortfall_bytes"] > 0
    assert facts["knobs"][0] == {"name": "execution_mode", "to": "auto or sequential", "fixes": True}
