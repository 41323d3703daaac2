"""A launcher in an engine's place: what it is told, what it states, and what its failures become."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import psutil
import pytest

from vlmhyperbench.environments.standing_in import gpus
from vlmhyperbench.processes import is_of_a_running_process, owner_of
from vlmhyperbench_sdk.gateway import EngineEnvironment, LoadRequest
from vlmhyperbench_sdk.testing.gateways import GatewayProcess

LAUNCHER = """
import json, os, sys
print("A library greets.")
print(json.dumps({"host": "127.0.0.2", "packages": {"a": "1"}, "environment": {"kind": "other"}}), flush=True)
line = sys.stdin.readline()
order = json.loads(line)
open(sys.argv[1], "w").write(json.dumps({"order": order, "paths": sys.argv[2:], "environ": dict(os.environ)}))
os.execvpe(order["argv"][0], order["argv"], {**os.environ, **order["env"]})
"""
REFUSING = """
import json, sys
print(json.dumps({"error": "There is no image.", "cure": "Build it.", "code": "no_image"}), flush=True)
sys.exit(1)
"""
BROKEN = "raise SystemExit('It broke.')"
SILENT = "import sys; sys.stdin.read()"


def load(process: GatewayProcess, tmp_path: Path, **fields: object) -> object:
    weights = tmp_path / "weights"
    weights.write_text("w")
    return process.load(
        LoadRequest(
            model="m",
            backend_class="simulated",
            files={"weights": str(weights)},
            env={"TOKEN": "the-secret-value"},
            **fields,
        )
    )


def environment(program: str, tmp_path: Path) -> dict[str, str]:
    launcher = tmp_path / "launcher.py"
    launcher.write_text(program)
    argv = (sys.executable, str(launcher), str(tmp_path / "told.json"))
    return EngineEnvironment(launcher=argv, inherited=("LANG",), variables={"MARK": "m"}).to_variables()


def test_a_launcher_is_told_the_plan_for_its_host_and_no_argument_holds_a_secret(tmp_path: Path) -> None:
    with GatewayProcess(env=environment(LAUNCHER, tmp_path)) as process:
        answer = load(process, tmp_path)
        assert answer.status == 200, answer.body
        status = answer.json()
        assert status["engine_url"].startswith("http://127.0.0.2:")
        engine = status["engine"]
        assert (engine["packages"], engine["environment"]) == ({"a": "1"}, {"kind": "other"})
        assert psutil.Process(engine["pid"]).ppid() == process.pid
        assert process.chat({"model": "m", "messages": [{"role": "user", "content": "Hello"}]}).status == 200
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["order"]["env"]["TOKEN"] == "the-secret-value"
    assert set(told["order"]["env"]) <= {"TOKEN", "MARK", "LANG"}
    assert "127.0.0.2" in told["order"]["argv"]
    weights, code = told["paths"]
    assert (weights, Path(code).name) == (str(tmp_path / "weights"), "vlmhyperbench_simulated")
    assert "TOKEN" not in told["environ"]


@pytest.mark.parametrize(
    ("program", "fields", "code", "text"),
    [
        (REFUSING, {}, "no_image", "There is no image."),
        (BROKEN, {}, "load_failed", "It broke."),
        (SILENT, {"load_timeout_s": 2.0}, "load_timeout", "was not ready within 2 s"),
    ],
)
def test_a_launcher_without_a_place_fails_the_load_and_another_load_may_follow(
    program: str, fields: dict[str, object], code: str, text: str, tmp_path: Path
) -> None:
    with GatewayProcess(env=environment(program, tmp_path)) as process:
        for _ in range(2):
            answer = load(process, tmp_path, **fields)
            assert (answer.status, answer.error_code()) == (502, code)
            assert text in answer.body.decode()
            assert psutil.Process(process.pid).children() == []


def test_an_owner_is_told_from_a_later_process_with_its_id() -> None:
    own = owner_of(os.getpid())
    boot, namespace, pid, started = own.split("/")
    assert is_of_a_running_process(own)
    assert not is_of_a_running_process("/".join((boot, namespace, pid, str(int(started) + 1))))
    assert not is_of_a_running_process("/".join(("another-boot", namespace, pid, started)))
    assert is_of_a_running_process("/".join((boot, "1", pid, "1"))), "a process that cannot be seen from here"


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [("", ()), ("-1", ()), ("0, 1", ("0", "1")), ("GPU-ab,MIG-cd", ("GPU-ab", "MIG-cd"))],
)
def test_a_container_gets_the_gpus_that_are_left_to_its_worker(
    chosen: str, expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert gpus() == expected
