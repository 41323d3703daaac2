"""Runs whose speed does not count share a device; a drained worker gets nothing until it is resumed."""

import pytest

from tests.support.audit import audit
from tests.support.processes import PATIENCE_S
from tests.support.stack import until
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry

MODELS = ("shared-a", "shared-b", "shared-c")


@pytest.fixture(scope="module")
def registries(registries):
    for name in MODELS:
        (registries / "models" / f"{name}.yaml").write_text(
            "description: An engine that stands for one of 1 GiB.\nbackends: [simulated]\n"
            "engine_params: {ttft_ms: 100, gap_ms: 1, tokens: 6, device_memory_gib: 1}\n"
        )
    return registries


def entry_of(*models, samples=40, engine_params=None, **more):
    dataset = {"name": "synthetic-questions", "limit": samples}
    targets = [{"model": model, "engine_params": engine_params or {}} for model in models]
    matrix = {"targets": targets, "tasks": ["synthetic-questions"]}
    return ExperimentEntry.model_validate({"matrix": matrix, "defaults": {"dataset": dataset, **more}})


def overlaps(stack, run_ids):
    """Count the pairs of claims of these runs that sent requests at the same time."""
    return stack.query(
        "SELECT count(*) FROM claim a JOIN claim b ON b.id > a.id AND a.run_id = ANY(%s) AND b.run_id = ANY(%s) "
        "WHERE a.sending_from_ns < b.sending_until_ns AND b.sending_from_ns < a.sending_until_ns",
        run_ids,
        run_ids,
    )[0][0]


def test_runs_that_share_a_device_infer_at_once_and_stay_loaded(stack):
    # Each sends for about ten seconds, nearly all of which it waits: the others load meanwhile on any machine. No other
    # target of this module declares to need as much.
    apart = {"ttft_ms": 1000, "device_memory_gib": 0.75}
    experiment = stack.client.experiments.create(entry_of(*MODELS, engine_params=apart, shares_device=True))
    ended = stack.wait_experiment(experiment.id)
    assert [run.state for run in ended.runs] == ["SUCCEEDED"] * 3, stack.logs()
    ids = [run.id for run in ended.runs]
    assert overlaps(stack, ids) >= 1
    jobs = "SELECT is_timed, devices FROM job WHERE kind = 'GENERATE' AND run_id = ANY(%s)"
    assert stack.query(jobs, ids) == [(False, 1)] * 3
    targets = "SELECT target_digest FROM memory_estimate WHERE device_bytes = 805306368"
    assert len(stack.query(targets)) == 3
    resident = f"SELECT count(*) FROM worker, unnest(resident) r WHERE kind = 'inference' AND r IN ({targets})"
    assert stack.query(resident) == [(3,)]
    measured = stack.query(f"SELECT bytes FROM memory_peak WHERE device_name = 'cpu' AND target_digest IN ({targets})")
    assert len(measured) == 3
    assert all(size > 0 for (size,) in measured)
    audit(stack)


def test_a_timed_run_has_the_worker_alone(stack):
    experiment = stack.client.experiments.create(entry_of(*MODELS[:2], samples=10))
    ended = stack.wait_experiment(experiment.id)
    assert [run.state for run in ended.runs] == ["SUCCEEDED"] * 2, stack.logs()
    assert overlaps(stack, [run.id for run in ended.runs]) == 0
    assert stack.query("SELECT cardinality(resident) FROM worker WHERE kind = 'inference'") == [(1,)]
    audit(stack)


def test_a_drained_worker_gets_nothing_until_it_is_resumed(stack, command):
    [worker] = [item for item in stack.client.workers().items if item.kind == "inference"]
    drained = command("workers", "drain", worker.queue, "--reason", "new fans")
    assert (drained["scope"], drained["reason"]) == ("worker", "new fans")
    run = stack.client.runs.create(
        RunEntry.model_validate(
            {
                "target": {"model": MODELS[0]},
                "task": "synthetic-questions",
                "dataset": {"name": "synthetic-questions", "limit": 3},
            }
        )
    )
    waits = until(
        lambda: (found := stack.client.runs.get(run.id).waits_for) and found.code == "drained" and found,
        "drained",
        PATIENCE_S,
    )
    assert f"by {drained['drained_by']}: new fans" in waits.message
    listed = {item["id"]: item for item in command("workers", "list")}
    assert listed[str(worker.id)]["drained"] == f"by {drained['drained_by']}: new fans"
    assert [item["reason"] for item in command("status")["drained"]] == ["new fans"]
    assert command("workers", "resume", worker.queue)["resumed_by"] == drained["drained_by"]
    assert stack.wait(run.id).state == "SUCCEEDED"


def test_a_model_that_fits_no_device_fails_with_need_and_have(stack):
    target = {"model": MODELS[0], "engine_params": {"device_memory_gib": 90_000}}
    run = stack.client.runs.create(RunEntry.model_validate({"target": target, "task": "synthetic-questions"}))
    ended = stack.wait(run.id)
    assert ended.state == "FAILED"
    assert "device_memory_gib" in ended.reason
    assert "108,000.0 GiB" in ended.reason


def test_a_plan_knows_how_long_the_same_took_before(stack):
    first = stack.client.experiments.create(entry_of(*MODELS, samples=5, shares_device=True))
    stack.wait_experiment(first.id)
    plan = stack.client.plan(entry_of(*MODELS, shares_device=True).model_dump(mode="json", exclude_defaults=True))
    assert len(plan.placements) == 3
    assert (plan.is_declared, plan.unknown, plan.refused, plan.waiting) == (False, [], [], [])
    assert plan.makespan_s is not None
    assert plan.shortest_s is not None
    assert plan.longest_s is not None
    assert 0 < plan.shortest_s <= plan.makespan_s <= plan.longest_s
