"""A worker joins a running stack from a command line, does its jobs, and leaves on request."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.support.processes import PATIENCE_S
from tests.support.stack import until
from vlmhyperbench.registry.schemas import RunEntry


@pytest.fixture
def second(stack):
    """A second evaluation worker, started as its user starts it."""
    argv = [sys.executable, "-m", "vlmhyperbench.cli.main", "worker", "evaluation", "--name", "second", "--json"]
    env = {**os.environ, "VLMHB_HOME": str(stack.home.root)}
    process = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


def present(stack):
    return {worker.name: worker for worker in stack.client.workers().items if worker.state == "LIVE"}


def test_a_second_worker_joins_does_jobs_and_leaves(stack, second):
    found = until(lambda: present(stack).get("second"), "the second worker is there", PATIENCE_S)
    assert (found.kind, found.pid) == ("evaluation", second.pid)
    stack.kill("evaluation", signal.SIGSTOP)
    try:
        given = {
            "target": {"model": "simulated-instant"},
            "task": "synthetic-questions",
            "dataset": {"name": "synthetic-questions", "limit": 3, "seed": 77},
        }
        run = stack.client.runs.create(RunEntry.model_validate(given))
        ended = stack.wait(run.id)
    finally:
        stack.kill("evaluation", signal.SIGCONT)
    assert ended.state == "SUCCEEDED"
    second.send_signal(signal.SIGINT)
    assert second.wait(PATIENCE_S) == 0
    assert json.loads(second.stdout.readline())["data"]["name"] == "second"
    assert "second" not in present(stack)


@pytest.mark.parametrize("module", ["api", "scheduler", "inference_worker", "eval_worker", "reporter"])
def test_asking_a_service_for_help_starts_nothing(stack, module):
    done = subprocess.run(
        [sys.executable, "-m", f"vlmhyperbench_{module}", "--help"],
        env={**os.environ, "VLMHB_HOME": str(stack.home.root), "VLMHB_WORKER_NAME": "asked-for-help"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: python -m vlmhyperbench_{module}")
    assert "asked-for-help" not in {worker.name for worker in stack.client.workers().items}


@pytest.mark.parametrize(
    ("settings", "named"), [({}, "No stack"), ({"VLMHB_TIMERS__LEASE_S": "long"}, "VLMHB_TIMERS__LEASE_S")]
)
def test_a_service_without_its_settings_says_which_and_ends(tmp_path, settings, named):
    done = subprocess.run(
        [sys.executable, "-m", "vlmhyperbench_eval_worker"],
        env={**os.environ, "VLMHB_HOME": str(tmp_path), **settings},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 3
    assert named in done.stderr
    assert "Traceback" not in done.stderr
