"""Ctrl-C and SIGTERM to commands that wait: submitted runs continue, and the stack that a demo started stops."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vlmhyperbench.cli import exits
from vlmhyperbench.local.supervisor import control
from vlmhyperbench.local.supervisor.home import Home

REGISTRIES = Path(__file__).parents[3] / "registries"


def _environment(home: Home) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VLMHB_")}
    return {**environment, "VLMHB_HOME": str(home.root), "VLMHB_REGISTRIES": str(REGISTRIES), "VLMHB_API_PORT": "0"}


def _interrupted(home: Home, *arguments: str, after: str, number: signal.Signals) -> tuple[int, str]:
    """Run a command, send it a signal when it has printed `after`, and return its exit code and stderr."""
    return _met_by(home, *arguments, after=after, what=lambda running: running.send_signal(number))


def _met_by(
    home: Home, *arguments: str, after: str, what: Callable[[subprocess.Popen[str]], object]
) -> tuple[int, str]:
    """Run a command, let something happen when it has printed `after`, and return its exit code and stderr."""
    # The process that started the tests may ignore the signal, and children inherit that.
    command = ["env", "--default-signal", sys.executable, "-m", "vlmhyperbench.cli.main", *arguments]
    with subprocess.Popen(
        command, env=_environment(home), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        lines = []
        for line in running.stderr:
            lines.append(line)
            if after in line:
                what(running)
                break
        lines += running.stderr.readlines()
        return running.wait(timeout=120), "".join(lines)


def _list(home: Home, what: str) -> list[dict[str, object]]:
    command = [sys.executable, "-m", "vlmhyperbench.cli.main", "ls", what, "--json"]
    done = subprocess.run(command, env=_environment(home), check=True, capture_output=True, text=True)
    rows: list[dict[str, object]] = json.loads(done.stdout)["data"]
    return rows


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A stack without workers, in which submitted runs wait."""
    made = Home(tmp_path_factory.mktemp("home"))
    control.up(made, host="127.0.0.1", port=0, services=("api", "scheduler"))
    yield made
    control.kill(made)


def test_after_ctrl_c_a_run_continues_and_the_command_to_follow_it_is_printed(home: Home) -> None:
    status, stderr = _interrupted(home, "run", "simulated-instant", after="queued", number=signal.SIGINT)
    run_id = _list(home, "runs")[0]["id"]
    assert status == 130
    assert f"vlmhyperbench watch {run_id}" in stderr
    assert f"vlmhyperbench cancel {run_id}" in stderr
    assert _list(home, "runs")[0]["is_cancelling"] is False

    status, stderr = _interrupted(home, "watch", str(run_id), after="queued", number=signal.SIGTERM)
    assert status == 143
    assert f"vlmhyperbench watch {run_id}" in stderr


def test_a_demo_leaves_a_running_stack_and_continues_where_it_stopped(home: Home) -> None:
    status, stderr = _interrupted(home, "demo", after="queued", number=signal.SIGINT)
    assert status == 130
    assert "vlmhyperbench demo" in stderr
    assert control.is_up(home)

    status, stderr = _interrupted(home, "demo", after="queued", number=signal.SIGINT)
    assert "--fresh" in stderr
    assert len(_list(home, "experiments")) == 1


def test_ctrl_c_in_a_demo_that_is_starting_leaves_nothing_running(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    status, _ = _interrupted(home, "demo", after="starting valkey", number=signal.SIGINT)
    assert status == 130
    assert not control.is_up(home)


@pytest.mark.parametrize("end", [control.kill, control.down])
def test_a_demo_whose_stack_is_killed_or_stopped_ends_by_itself(tmp_path: Path, end: Callable[[Home], object]) -> None:
    home = Home(tmp_path / "home")
    control.up(home, host="127.0.0.1", port=0, services=("api", "scheduler"))
    try:
        status, stderr = _met_by(home, "demo", after="queued", what=lambda _: end(home))
    finally:
        control.kill(home)
    assert status == exits.SETUP
    assert home.log_of("supervisor").name in stderr
