"""Workers of a Slurm cluster: the file that `slurm` writes starts real workers that join, work, drain and leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.audit import audit
from tests.support.processes import PATIENCE_S
from tests.support.slurm import Cluster
from tests.support.stack import Stack, running_stack
from vlmhyperbench.registry.schemas import RunEntry

PROGRAM = Path(sys.executable).parent / "vlmhyperbench"


@pytest.fixture(scope="module")
def registries(registries: Path) -> Path:
    (registries / "models" / "steady.yaml").write_text(
        "description: 50 ms an answer.\nbackends: [simulated]\n"
        "engine_params: {ttft_ms: 40, gap_ms: 2, tokens: 6, usage: always}\n"
    )
    return registries


@pytest.fixture(scope="module")
def stack(registries: Path) -> Iterator[Stack]:
    with running_stack(registries, services=("scheduler", "api", "evaluation", "reporting")) as found:
        yield found


@pytest.fixture
def cluster(stack: Stack, tmp_path: Path, command: Callable[..., Any]) -> Callable[..., Cluster]:
    def make(*options: str, uses: int) -> Cluster:
        token = stack.client.create_join_token(kind="inference", max_uses=uses).token
        made = Cluster(tmp_path, token)
        words = ["--server", stack.home.api_url() or "", "--token-file", str(made.token_file)]
        words += ["--program", str(PROGRAM), "--gpus", "0", "--out", str(made.file), *options]
        command("slurm", *words)
        assert token not in made.file.read_text()
        return made

    return make


def submit(stack: Stack, limit: int) -> Any:
    dataset = {"name": "synthetic-questions", "limit": limit}
    given = {"target": {"model": "steady"}, "task": "synthetic-questions", "dataset": dataset}
    return stack.client.runs.create(RunEntry.model_validate(given))


def test_workers_join_do_a_run_and_leave_when_idle(stack: Stack, cluster: Callable[..., Cluster]) -> None:
    slurm = cluster("--workers", "2", "--until-idle", "20", "--partition", "gpu", "--time", "30", uses=2)
    run = submit(stack, 20)
    slurm.submit()
    assert stack.wait(run.id).state == "SUCCEEDED", slurm.logs()
    assert slurm.codes(2) == ["0", "0"], slurm.logs()
    assert stack.rows(run.id) == 20
    names = "SELECT DISTINCT name, state FROM worker WHERE name LIKE 'slurm-%%' ORDER BY name"
    assert stack.query(names) == [("slurm-4200", "GONE"), ("slurm-4201", "GONE")]
    options = json.loads((slurm.folder / "options.json").read_text())
    assert options["signal"] == "B:TERM@120"
    assert (options["array"], options["partition"], options["time"], options["export"]) == ("0-1", "gpu", "30", "NONE")
    assert not list(slurm.folder.glob("vlmhb-*"))  # the homes of the tasks
    assert slurm.token not in slurm.logs()
    audit(stack)


def test_a_worker_whose_time_ends_gives_its_job_back_and_goes_on_when_started_again(
    stack: Stack, cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    slurm = cluster("--until-idle", "20", "--home", str(tmp_path / "home"), uses=1)
    run = submit(stack, 400)
    slurm.submit()
    stack.wait_done(run.id, 20)
    os.kill(int((slurm.folder / "0.pid").read_text()), signal.SIGTERM)  # as `--signal=B:TERM` does
    assert slurm.codes(1) == ["0"], slurm.logs()
    assert 20 <= stack.rows(run.id) < 400
    slurm.submit()  # its home has joined already, so the token is not used again
    assert stack.wait(run.id).state == "SUCCEEDED", slurm.logs()
    assert slurm.codes(1) == ["0"], slurm.logs()
    assert stack.rows(run.id) == 400
    audit(stack)


def test_the_workers_of_a_machine_with_several_devices_leave_when_all_are_idle(stack: Stack, tmp_path: Path) -> None:
    joined = Cluster(tmp_path, stack.client.create_join_token(kind="inference", max_uses=1).token)
    devices = tmp_path / "devices.yaml"
    devices.write_text("machine: box\ndevices:\n  - {name: GPU of nobody, memory_gib: 24, count: 3}\n")
    runs = [submit(stack, 20), submit(stack, 20)]
    words = ["worker", "inference", "--name", "box", "--server", stack.home.api_url() or "", "--until-idle", "20"]
    own = {"VLMHB_HOME": str(tmp_path / "home"), "VLMHB_INVENTORY": str(devices)}
    with (tmp_path / "box.log").open("wb") as log:
        ended = subprocess.run(
            [PROGRAM, *words, "--token-file", str(joined.token_file)],
            env={**os.environ, **own},
            stdout=log,
            stderr=log,
            timeout=2 * PATIENCE_S,
            check=False,
        )
    assert ended.returncode == 0, joined.logs()
    assert [stack.wait(run.id).state for run in runs] == ["SUCCEEDED", "SUCCEEDED"]
    names = "SELECT name, state FROM worker WHERE kind = 'inference' AND name LIKE 'box%%' ORDER BY name"
    assert stack.query(names) == [("box-0", "GONE"), ("box-1", "GONE"), ("box-2", "GONE")]
    audit(stack)
