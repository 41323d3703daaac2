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
from tests.support.nvml import fake_driver
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
    def make(*options: str, uses: int, gpus: int = 0, **variables: str) -> Cluster:
        token = stack.client.create_join_token(kind="inference", max_uses=uses).token
        made = Cluster(tmp_path, token, variables=variables)
        words = ["--server", stack.home.api_url() or "", "--token-file", str(made.token_file)]
        words += ["--program", str(PROGRAM), "--gpus", str(gpus), "--out", str(made.file), *options]
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


APPTAINER = """#!{python}
import json, os, sys
from pathlib import Path
end = sys.argv.index("{sif}")
options = sys.argv[2:end]
Path("{told}").write_text(json.dumps(options))
inside = {{name.removeprefix("APPTAINERENV_"): value for name, value in os.environ.items() if "APPTAINERENV_" in name}}
driver = {{"LD_LIBRARY_PATH": os.environ["LD_LIBRARY_PATH"]}} if "--nv" in options else {{}}
os.execve("{program}", ["{program}", *sys.argv[end + 2:]], {{"PATH": os.defpath, **driver, **inside}})
"""
"""In place of Apptainer: no container, but what `--cleanenv` and `--nv` leave of the environment."""


def test_a_task_with_several_gpus_is_one_worker_for_models_that_need_them_together(
    stack: Stack, cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    (tmp_path / "driver").mkdir()
    driver = fake_driver(tmp_path / "driver", gpus=3)
    apptainer, told, sif = tmp_path / "node" / "apptainer", tmp_path / "told.json", tmp_path / "worker.sif"
    sif.touch()
    apptainer.parent.mkdir()
    apptainer.write_text(APPTAINER.format(python=sys.executable, sif=sif, told=told, program=PROGRAM))
    apptainer.chmod(0o755)
    given = {"LD_LIBRARY_PATH": str(driver.folder), "CUDA_VISIBLE_DEVICES": "0,2"}  # as Slurm chooses two of a node
    given["PATH"] = f"{apptainer.parent}:{os.defpath}"
    storage = ("--storage", str(stack.home.storage))
    slurm = cluster("--until-idle", "20", "--sif", str(sif), *storage, uses=1, gpus=2, **given)
    target = {"model": "steady", "engine_params": {"tensor_parallel": 2}}
    dataset = {"name": "synthetic-questions", "limit": 20}
    entry = RunEntry.model_validate({"target": target, "task": "synthetic-questions", "dataset": dataset})
    run = stack.client.runs.create(entry)
    slurm.submit()
    assert stack.wait(run.id).state == "SUCCEEDED", slurm.logs()
    assert slurm.codes(1) == ["0"], slurm.logs()
    options = json.loads((slurm.folder / "options.json").read_text())
    assert options["gres"] == "gpu:2"
    assert {"--nv", "--cleanenv"} <= set(json.loads(told.read_text()))
    claims = (
        "SELECT w.name, c.gpus FROM claim c JOIN worker w ON w.id = c.worker_id WHERE c.run_id = %s AND c.gpus <> '{}'"
    )
    assert stack.query(claims, run.id) == [("slurm-4200", sorted([driver.gpus[0], driver.gpus[2]]))]
    assert stack.query("SELECT devices FROM job WHERE run_id = %s AND kind = 'GENERATE'", run.id) == [(2,)]
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
