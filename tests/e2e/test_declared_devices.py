"""Stacks whose devices are declared in a file: one worker for each, simulated engines only, and marked everywhere."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys

import httpx2
import pytest

from tests.support.audit import audit
from tests.support.processes import PATIENCE_S
from tests.support.stack import running_stack, until
from vlmhyperbench.cli.exits import code_of
from vlmhyperbench.errors import Conflict, NotFound
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry
from vlmhyperbench.reports.sections.limitations import DECLARED

H100 = "NVIDIA H100 80GB HBM3"


def inventory(folder, count, machine="box"):
    path = folder / f"{machine}-{count}.yaml"
    path.write_text(f"machine: {machine}\ndevices:\n  - {{name: {H100}, memory_gib: 80, count: {count}}}\n")
    return str(path)


@pytest.fixture(scope="module")
def registries(registries):
    for name in "abcd":
        (registries / "models" / f"steady-{name}.yaml").write_text(
            "description: 400 ms an answer.\nbackends: [simulated]\n"
            "engine_params: {ttft_ms: 395, gap_ms: 1, tokens: 6, usage: always}\n"
        )
    return registries


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("inventories")


@pytest.fixture(scope="module")
def stack(registries, folder):
    with running_stack(registries, VLMHB_INVENTORY=inventory(folder, 1)) as found:
        live_workers(found, 1)
        yield found


def live_workers(stack, count):
    """Wait until this number of inference workers is live and return them by their names."""
    return until(
        lambda: len(found := {w.name: w for w in stack.client.workers().items if w.devices}) == count and found,
        f"{count} inference workers",
        PATIENCE_S,
    )


def experiment(stack, targets, samples):
    matrix = {"targets": [{"model": f"steady-{name}"} for name in targets], "tasks": ["synthetic-questions"]}
    dataset = {"name": "synthetic-questions", "limit": samples}
    entry = ExperimentEntry.model_validate({"matrix": matrix, "defaults": {"dataset": dataset}})
    ended = stack.wait_experiment(stack.client.experiments.create(entry).id)
    runs = [stack.client.runs.get(run.id) for run in ended.runs]
    assert [run.state for run in runs] == ["SUCCEEDED"] * len(targets), stack.logs()
    return runs


def engine_of(stack, run_id):
    """Return the worker of a run and the process id of its engine."""
    engine = (
        "SELECT w.name, c.engine->>'pid' FROM claim c JOIN worker w ON w.id = c.worker_id "
        "WHERE c.run_id = %s AND c.engine IS NOT NULL"
    )
    [found] = stack.query(engine, run_id)
    return found


@pytest.mark.parametrize("devices", [2, 4])
def test_each_declared_device_has_a_worker_that_runs_a_target_of_an_experiment(registries, folder, devices):
    with running_stack(registries, VLMHB_INVENTORY=inventory(folder, devices)) as stack:
        workers = live_workers(stack, devices)
        assert sorted(workers) == [f"inference-{number}" for number in range(devices)]
        assert [worker.devices[0].uuid for worker in workers.values()] == [f"declared-box-{n}" for n in range(devices)]
        assert all(worker.is_declared and worker.devices[0].name == H100 for worker in workers.values())
        # They take ten seconds: every run is assigned before the first of them ends.
        runs = experiment(stack, "abcd"[:devices], samples=100)
        used = stack.query(
            "SELECT count(DISTINCT w.name) FROM claim c JOIN worker w ON w.id = c.worker_id JOIN job j "
            "ON j.id = c.job_id WHERE j.kind = 'GENERATE' AND c.run_id = ANY(%s)",
            [run.id for run in runs],
        )
        assert used == [(devices,)]
        # A further run of a target goes to the worker that holds its model, whichever is free before it.
        first = [engine_of(stack, run.id) for run in runs]
        again = [engine_of(stack, experiment(stack, name, samples=6)[0].id) for name in "abcd"[:devices]]
        assert again == first
        audit(stack)


def test_a_model_in_parallel_gets_a_gang_though_others_wait_for_the_same_devices(registries, folder):
    gangs = {"VLMHB_INVENTORY": inventory(folder, 3), "VLMHB_GANGS": "0,1"}
    with running_stack(registries, **gangs) as stack:
        workers = live_workers(stack, 2)
        assert [len(workers[f"inference-{number}"].devices) for number in range(2)] == [2, 1]

        def submit(name, **params):
            target = {"model": f"steady-{name}", "engine_params": params}
            dataset = {"name": "synthetic-questions", "limit": 20}
            entry = {"target": target, "task": "synthetic-questions", "dataset": dataset}
            return stack.client.runs.create(RunEntry.model_validate(entry)).id

        single = [submit(name) for name in "abc"]
        pair = submit("d", tensor_parallel=2)
        single += [submit(name, seed=1) for name in "abc"]
        never = submit("d", tensor_parallel=4)
        assert [stack.wait(run).state for run in (*single, pair)] == ["SUCCEEDED"] * 7, stack.logs()
        ended = stack.wait(never)
        assert (ended.state, "4" in ended.reason) == ("FAILED", True)
        devices = "SELECT devices FROM job WHERE run_id = %s AND kind = 'GENERATE'"
        assert stack.query(devices, pair) == [(2,)]
        assert engine_of(stack, pair)[0] == "inference-0"
        [used] = stack.client.runs.manifest(pair).engines
        assert [device["uuid"] for device in used.machine["devices"]] == ["declared-box-0", "declared-box-1"]
        audit(stack)


def vlmhyperbench(stack, *argv, **environment):
    env = {**os.environ, "VLMHB_HOME": str(stack.home.root), **environment}
    argv = [sys.executable, "-m", "vlmhyperbench.cli.main", *argv]
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120)


def test_what_ran_on_a_declared_device_says_so_in_status_manifest_and_report(stack):
    [run] = experiment(stack, "a", samples=5)
    [used] = stack.client.runs.manifest(run.id).engines
    assert used.machine["declared"] is True
    assert used.machine["devices"] == [
        {"kind": "gpu", "name": H100, "uuid": "declared-box-0", "memory_bytes": 80 * 2**30}
    ]
    [shown] = json.loads(vlmhyperbench(stack, "status", "--json").stdout)["data"]["workers"]
    assert (shown["name"], shown["is_declared"]) == ("inference", True)
    assert f"{H100} (declared)" in vlmhyperbench(stack, "status").stdout
    assert "(declared)" in vlmhyperbench(stack, "workers", "list").stdout
    files = {item.name: item.id for item in stack.client.report(run.id).files}
    report = stack.client.artifact_content(files["report.md"]).decode()
    assert DECLARED.format(names=H100)[1:] in report
    assert "devices only declared" in report


def test_status_shows_a_stack_elsewhere_by_its_api(stack, tmp_path):
    home = stack.home
    reached = {"VLMHB_HOME": str(tmp_path), "VLMHB_API_URL": home.api_url(), "VLMHB_API_KEY": home.api_key()}
    here, there = (json.loads(vlmhyperbench(stack, "status", "--json", **own).stdout) for own in ({}, reached))
    assert there["data"]["workers"][0]["id"] == here["data"]["workers"][0]["id"]
    assert {number["name"] for number in there["data"]["numbers"]} == {n["name"] for n in here["data"]["numbers"]}
    text = vlmhyperbench(stack, "status", **reached)
    assert (text.returncode, "busy slots of workers" in text.stdout) == (0, True)
    assert f"{H100} (declared)" in text.stdout
    assert "No stack is running" not in text.stdout
    away = vlmhyperbench(stack, "status", **reached | {"VLMHB_API_URL": "http://127.0.0.1:9"})
    assert (away.returncode, "does not answer" in away.stderr, "Traceback" in away.stderr) == (3, True, False)


def test_a_real_engine_is_refused_on_a_declared_gpu(stack):
    given = {"target": {"model": "tiny-doc-vlm"}, "task": "synthetic-questions"}
    given["dataset"] = {"name": "synthetic-questions", "limit": 1}
    run = stack.wait(stack.client.runs.create(RunEntry.model_validate(given)).id)
    assert run.state == "FAILED"
    assert "only declared" in run.reason
    assert stack.query("SELECT outcome->>'code' FROM job WHERE run_id = %s AND kind = 'GENERATE'", run.id) == [
        ("does_not_fit",)
    ]


def two_free_ports():
    """Return the first of two free ports that follow each other."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as first, contextlib.suppress(OSError, OverflowError):
            port = first.getsockname()[1]
            with socket.create_server(("127.0.0.1", port + 1)):
                return port


def test_a_machine_joins_with_a_worker_for_each_of_its_devices_and_leaves(stack, folder):
    port = two_free_ports()
    own = {"VLMHB_INVENTORY": inventory(folder, 2, "joining"), "VLMHB_METRICS_PORT": str(port)}
    env = {**os.environ, "VLMHB_HOME": str(stack.home.root), **own}
    argv = [sys.executable, "-m", "vlmhyperbench.cli.main", "worker", "inference", "--name", "joining", "--json"]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as agent:
        try:
            told = json.loads(agent.stdout.readline())["data"]["workers"]
            assert [(share["name"], share["devices"]) for share in told] == [
                ("joining-0", ["declared-joining-0"]),
                ("joining-1", ["declared-joining-1"]),
            ]
            workers = live_workers(stack, 3)
            assert {"joining-0", "joining-1"} < set(workers)
            for own_port in (port, port + 1):
                assert httpx2.get(f"http://127.0.0.1:{own_port}/healthz", trust_env=False).status_code == 200
            os.kill(workers["joining-0"].pid, signal.SIGKILL)  # it is started again
            until(
                lambda: live_workers(stack, 3)["joining-0"].pid != workers["joining-0"].pid, "a new worker", PATIENCE_S
            )
            agent.send_signal(signal.SIGINT)
            assert agent.wait(PATIENCE_S) == 0
        finally:
            agent.kill()
    assert list(live_workers(stack, 1)) == ["inference"]


def test_a_second_worker_for_a_device_of_the_stack_is_refused_with_the_name_of_its_holder(stack, folder):
    holder = live_workers(stack, 1)["inference"]
    refused = vlmhyperbench(stack, "worker", "inference", "--name", "thief", VLMHB_INVENTORY=inventory(folder, 1))
    assert refused.returncode == code_of(Conflict("x"))
    assert "declared-box-0" in refused.stderr
    assert f"the worker 'inference' (pid {holder.pid}, since " in refused.stderr
    assert list(live_workers(stack, 1)) == ["inference"]


def test_a_device_that_does_not_exist_is_named_before_anything_starts(stack, folder):
    refused = vlmhyperbench(
        stack, "worker", "inference", VLMHB_INVENTORY=inventory(folder, 1, "other"), VLMHB_DEVICES="GPU-7"
    )
    assert refused.returncode != 0
    assert "no device 'GPU-7'" in refused.stderr
    assert f"0: declared-other-0 ({H100})" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_device_in_quarantine_is_an_alert_of_status_until_a_person_releases_it(stack):
    broken = (
        "UPDATE device SET state = 'BROKEN', state_reason = 'The driver reported Xid 79.', state_since = now() "
        "WHERE uuid = 'declared-box-0' RETURNING no"
    )
    assert stack.query(broken)
    given = {"target": {"model": "steady-a"}, "task": "synthetic-questions"}
    given["dataset"] = {"name": "synthetic-questions", "limit": 1}
    run = stack.client.runs.create(RunEntry.model_validate(given))
    shown = json.loads(vlmhyperbench(stack, "status", "--json").stdout)
    [alert] = [warning for warning in shown["warnings"] if "quarantine" in warning]
    assert "declared-box-0" in alert
    assert "The driver reported Xid 79." in alert
    assert alert.endswith("vlmhyperbench workers release-device declared-box-0")
    text = vlmhyperbench(stack, "status")
    assert "quarantined" in text.stdout
    assert alert in text.stderr
    released = vlmhyperbench(stack, "workers", "release-device", "declared-box-0", "--json")
    assert json.loads(released.stdout)["data"] == {"uuid": "declared-box-0", "was_broken": True}
    assert stack.wait(run.id).state == "SUCCEEDED"
    unknown = vlmhyperbench(stack, "workers", "release-device", "GPU-7")
    assert unknown.returncode == code_of(NotFound("x"))


def test_doctor_names_the_devices_of_this_machine(folder, tmp_path):
    env = {**os.environ, "VLMHB_HOME": str(tmp_path), "VLMHB_INVENTORY": inventory(folder, 2)}

    def devices(**settings):
        argv = [sys.executable, "-m", "vlmhyperbench.cli.main", "doctor", "--json"]
        done = subprocess.run(argv, env={**env, **settings}, capture_output=True, text=True)
        return next(check for check in json.loads(done.stdout)["data"] if check["name"] == "devices")

    assert devices()["detail"] == "inference-0: declared-box-0; inference-1: declared-box-1 (declared)"
    assert devices(VLMHB_DEVICES="GPU-7")["is_ok"] is False
