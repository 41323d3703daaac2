"""Two inference workers on one machine: timed one after another, or at once where their cores are apart."""

import itertools
import json
import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from uuid import uuid4

import pytest

from tests.support.audit import audit
from tests.support.processes import PATIENCE_S
from tests.support.stack import running_stack, until
from vlmhyperbench.registry.schemas import ExperimentEntry
from vlmhyperbench.summaries.codec import from_object
from vlmhyperbench.summaries.spans import are_one_after_another

PIN = """
import os, sys
from vlmhyperbench.worker.ground import ground
os.sched_setaffinity(0, {int(sys.argv[1])})
print(*sorted(ground([]).cores))
"""


@pytest.fixture(scope="module")
def registries(registries):
    for name in ("steady-a", "steady-b"):
        (registries / "models" / f"{name}.yaml").write_text(
            "description: 25 ms an answer.\nbackends: [simulated]\n"
            "engine_params: {ttft_ms: 20, gap_ms: 1, tokens: 6, usage: always}\n"
        )
    return registries


@contextmanager
def second_worker(stack, **environment):
    """Start one more inference worker in the stack's home."""
    log = (stack.home.logs / "second.log").open("ab")
    process = subprocess.Popen(
        [sys.executable, "-m", "vlmhyperbench_inference_worker"],
        env={**os.environ, "VLMHB_WORKER_NAME": "second", **environment},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    )
    try:
        live = "SELECT count(*) FROM worker WHERE kind = 'inference' AND state = 'LIVE'"
        until(lambda: stack.query(live) == [(2,)], "second worker", PATIENCE_S)
        yield
    finally:
        process.terminate()
        process.wait()
        log.close()


@contextmanager
def measurement_outside_of_tests():
    """Be seen as a measurement of a stack that has no group, as a user's has: no stack of a test counts it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(f"\0vlmhyperbench-measures--{uuid4()}")
        yield


def compare_two(stack, *, samples):
    """Run an experiment of two targets and return its runs and the summaries that its report shows."""
    dataset = {"name": "synthetic-questions", "limit": samples}
    matrix = {"targets": [{"model": "steady-a"}, {"model": "steady-b"}], "tasks": ["synthetic-questions"]}
    entry = ExperimentEntry.model_validate({"matrix": matrix, "defaults": {"dataset": dataset}})
    experiment = stack.wait_experiment(stack.client.experiments.create(entry).id)
    runs = [stack.client.runs.get(run.id) for run in experiment.runs]
    assert [run.state for run in runs] == ["SUCCEEDED"] * 2, stack.logs()
    files = {item.name: item.id for item in stack.client.artifacts(experiment_id=experiment.id).items}
    shown = json.loads(stack.client.artifact_content(files["report.json"]))["runs"]
    return runs, [from_object(shown[str(run.id)]) for run in runs]


def windows(stack, runs):
    """Return from when to when each claim sent, and the name of its worker, in the order of their beginnings."""
    return stack.query(
        "SELECT c.run_id, c.sending_from_ns, c.sending_until_ns, w.name FROM claim c "
        "JOIN worker w ON w.id = c.worker_id JOIN job j ON j.id = c.job_id "
        "WHERE j.kind = 'GENERATE' AND c.run_id = ANY(%s) AND c.sending_until_ns IS NOT NULL "
        "ORDER BY c.sending_from_ns",
        [run.id for run in runs],
    )


def disturbers(summary):
    """Return how many inferences disturbed a run."""
    (count,) = [gate.value for gate in summary.performance.gates if gate.name == "disturbers"]
    return count, summary.performance.validity.disturbers


def are_sequential(summaries):
    """Return whether the report says that the runs were timed one after another."""
    return are_one_after_another([summary.generating for summary in summaries])


def test_two_workers_on_one_machine_are_measured_one_after_another(registries):
    with running_stack(registries) as stack, second_worker(stack), measurement_outside_of_tests():
        runs, summaries = compare_two(stack, samples=60)
        found = windows(stack, runs)
        assert {run_id for run_id, *_ in found} == {run.id for run in runs}
        for before, after in itertools.pairwise(found):
            assert before[2] <= after[1]
        assert [disturbers(summary) for summary in summaries] == [(0, ())] * 2
        assert are_sequential(summaries), found
        audit(stack)


def cores_apart():
    """Return two cores of this machine that share no arithmetic units; skip the test where there are none."""
    siblings = {
        core: set(
            subprocess.run([sys.executable, "-c", PIN, str(core)], capture_output=True, check=True).stdout.split()
        )
        for core in sorted(os.sched_getaffinity(0))[:16]
    }
    apart = [(a, b) for a, b in itertools.combinations(siblings, 2) if siblings[a].isdisjoint(siblings[b])]
    if not apart:
        pytest.skip("this machine has no two cores that are apart")
    return apart[0]


def test_two_workers_with_cores_of_their_own_are_measured_at_once_and_count(registries):
    low, high = cores_apart()
    with (
        running_stack(registries, VLMHB_INFERENCE_CORES=str(low)) as stack,
        second_worker(stack, VLMHB_INFERENCE_CORES=str(high)),
    ):
        # So many that the first is not done before the engine of the second is loaded, however slowly that goes.
        runs, summaries = compare_two(stack, samples=500)
        found = windows(stack, runs)  # one of each run, or more where a busy machine made a claim begin again
        assert {run_id for run_id, *_ in found} == {run.id for run in runs}
        at_once = {frozenset((a[3], b[3])) for a, b in itertools.combinations(found, 2) if b[1] < a[2]}
        assert at_once == {frozenset(("inference", "second"))}, found
        assert not are_sequential(summaries)
        assert [disturbers(summary) for summary in summaries] == [(0, ())] * 2


def test_the_workers_of_a_machine_with_two_slots_get_cores_of_their_own_and_measure_at_once(registries):
    low, high = cores_apart()
    with running_stack(registries, VLMHB_CPU_WORKERS="2", VLMHB_INFERENCE_CORES=f"{low},{high}") as stack:
        workers = "SELECT name, cores FROM worker WHERE kind = 'inference' AND state = 'LIVE' ORDER BY name"
        (first, low_cores), (second, high_cores) = until(
            lambda: len(live := stack.query(workers)) == 2 and live, "two workers", 90
        )
        assert (first, second) == ("inference-0", "inference-1")
        assert low in low_cores
        assert high in high_cores
        assert set(low_cores).isdisjoint(high_cores)
        runs, summaries = compare_two(stack, samples=500)
        found = windows(stack, runs)
        at_once = {frozenset((a[3], b[3])) for a, b in itertools.combinations(found, 2) if b[1] < a[2]}
        assert at_once == {frozenset((first, second))}, found
        assert [disturbers(summary) for summary in summaries] == [(0, ())] * 2
        audit(stack)
