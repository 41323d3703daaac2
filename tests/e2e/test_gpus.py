"""A machine with two GPUs, by a library in place of NVML's own: a worker for each, whose engines see only that one."""

from pathlib import Path

import pytest

from tests.support.audit import audit
from tests.support.nvml import fake_driver
from tests.support.processes import PATIENCE_S
from tests.support.stack import running_stack, until
from vlmhyperbench.registry.schemas import ExperimentEntry
from vlmhyperbench.worker.device_watch import QUARANTINED

LIVE = """
SELECT d.uuid, w.name, w.pid, d.state FROM worker w JOIN device d ON d.worker_id = w.id
WHERE w.state = 'LIVE' ORDER BY w.name
"""


@pytest.fixture(scope="module")
def registries(registries):
    for name in "ab":
        (registries / "models" / f"steady-{name}.yaml").write_text(
            "description: 400 ms an answer.\nbackends: [simulated]\n"
            "engine_params: {ttft_ms: 395, gap_ms: 1, tokens: 6, usage: always}\n"
        )
    return registries


@pytest.fixture
def driver(tmp_path):
    return fake_driver(tmp_path, gpus=2)


@pytest.fixture
def stack(registries, driver):
    with running_stack(registries, LD_LIBRARY_PATH=str(driver.folder)) as found:
        until(lambda: len(found.query(LIVE)) == 2, "two workers", PATIENCE_S)
        yield found


def start(stack, samples):
    matrix = {"targets": [{"model": f"steady-{name}"} for name in "ab"], "tasks": ["synthetic-questions"]}
    dataset = {"name": "synthetic-questions", "limit": samples}
    entry = ExperimentEntry.model_validate({"matrix": matrix, "defaults": {"dataset": dataset}})
    return stack.client.experiments.create(entry)


def visible_devices(pid):
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next((pair.partition(b"=")[2].decode() for pair in variables if pair.startswith(b"CUDA_VISIBLE_D")), None)


CLAIMS = """
SELECT w.name, c.engine->>'pid', c.gpus, c.machine->'devices', c.run_id FROM claim c
JOIN worker w ON w.id = c.worker_id WHERE c.engine IS NOT NULL
"""


def test_engines_see_only_the_gpu_of_their_worker_and_a_broken_gpu_loses_its_job_to_the_other(stack, driver):
    first, second = driver.gpus
    assert {name: uuid for uuid, name, _, _ in stack.query(LIVE)} == {"inference-0": first, "inference-1": second}
    experiment = start(stack, samples=100)  # ten seconds, in which the driver's report is read on any machine
    running = f"{CLAIMS} AND c.ended_at IS NULL AND w.name = 'inference-0'"
    [(_, pid, gpus, devices, lost)] = until(lambda: stack.query(running), "an engine of the first worker", PATIENCE_S)
    assert visible_devices(int(pid)) == first
    assert gpus == [first]
    assert [device["uuid"] for device in devices] == [first]
    driver.report_xid(0, 79)
    until(lambda: [row for row in stack.query(LIVE) if row[3] == "BROKEN"], "quarantine", PATIENCE_S)
    ended = stack.wait_experiment(experiment.id)
    assert [stack.client.runs.get(run.id).state for run in ended.runs] == ["SUCCEEDED"] * 2, stack.logs()
    failed = stack.query("SELECT failure->>'code' FROM claim WHERE run_id = %s AND failure IS NOT NULL", lost)
    assert failed == [(QUARANTINED,)]
    name, pid, gpus, _, run_id = stack.query(f"{CLAIMS} ORDER BY c.started_at DESC")[0]
    assert (name, gpus, run_id) == ("inference-1", [second], lost)
    assert visible_devices(int(pid)) == second  # its target stays loaded
    assert [state for _, _, _, state in stack.query(LIVE)] == ["BROKEN", "OK"]
    alerts = stack.query("SELECT data->>'code' FROM event WHERE stream_id = %s AND type = 'alert.raised'", lost)
    assert alerts == [(QUARANTINED,)]
    audit(stack)
