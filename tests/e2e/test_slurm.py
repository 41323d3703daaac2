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
from tests.support.stack import Stack, running_stack, until
from vlmhyperbench.registry.schemas import RunEntry

PROGRAM = Path(sys.executable).parent / "vlmhyperbench"
SBATCH = Path(__file__).parents[1] / "support" / "sbatch.py"


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


class Cluster:
    """A file for sbatch, and the tasks that the stand-in for Slurm has started of it."""

    def __init__(self, folder: Path, token: str) -> None:
        self.folder, self.token = folder, token
        self.file = folder / "workers.sbatch"

    def submit(self) -> None:
        """Run `sbatch FILE`, found on the path, with a secret in the submitter's environment."""
        for old in self.folder.glob("*.code"):
            old.unlink()
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        subprocess.run(
            ["sbatch", str(self.file)], env=os.environ | {"PATH": path, "HF_TOKEN": "hf_x"}, check=True, timeout=60
        )

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def codes(self, workers: int) -> list[str]:
        """Wait until all tasks have ended, and return their exit codes."""
        files = [self.folder / f"{number}.code" for number in range(workers)]
        until(lambda: all(file.exists() for file in files), "the end of all tasks", PATIENCE_S, last=self.logs)
        return [file.read_text() for file in files]


@pytest.fixture
def cluster(stack: Stack, tmp_path: Path, command: Callable[..., Any]) -> Callable[..., Cluster]:
    def make(*options: str, uses: int) -> Cluster:
        token = stack.client.create_join_token(kind="inference", max_uses=uses).token
        made = Cluster(tmp_path, token)
        (tmp_path / "token").write_text(token)
        (tmp_path / "token").chmod(0o600)
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "sbatch").write_text(f'#!/bin/sh\nexec {sys.executable} {SBATCH} {tmp_path} "$@"\n')
        (tmp_path / "bin" / "sbatch").chmod(0o755)
        words = ["--server", stack.home.api_url() or "", "--token-file", str(tmp_path / "token")]
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
    names = "SELECT name, state FROM worker WHERE kind = 'inference' AND name LIKE 'slurm-%%' ORDER BY name"
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
