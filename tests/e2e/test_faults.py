"""Processes die, the broker forgets, users change their minds: every sample exactly once, every run ended."""

import json
import os
import signal

import pytest
import redis

from tests.support.audit import audit
from tests.support.processes import PATIENCE_S
from tests.support.stack import running_stack, until
from vlmhyperbench.registry.schemas import RunEntry


@pytest.fixture(scope="module")
def registries(registries):
    """Add a target that is slow enough to be interrupted and fast enough to end."""
    (registries / "models" / "simulated-steady.yaml").write_text(
        "description: 25 ms an answer.\nbackends: [simulated]\n"
        "engine_params: {ttft_ms: 20, gap_ms: 1, tokens: 6, usage: always}\n"
    )
    (registries / "models" / "simulated-flaky.yaml").write_text(
        "description: Slower than a segment lasts, and it breaks every second answer.\nbackends: [simulated]\n"
        "engine_params: {ttft_ms: 2300, gap_ms: 1, tokens: 6, usage: always, fail_every: 2, failure: cut}\n"
    )
    return registries


def start(stack, samples=600, **changes):
    given = {
        "target": {"model": "simulated-steady"},
        "task": "synthetic-questions",
        "dataset": {"name": "synthetic-questions", "limit": samples},
    }
    return stack.client.runs.create(RunEntry.model_validate({**given, **changes})).id


def assert_exactly_once(stack, run_id, samples):
    run = stack.wait(run_id)
    failed = stack.query(
        "SELECT ordinal, failure, error_code, http_status, tries FROM fact WHERE run_id = %s AND status <> 'ok'", run_id
    )
    assert (run.state, run.reason, failed) == ("SUCCEEDED", None, []), stack.logs()
    assert (run.total, run.done, stack.rows(run_id)) == (samples, samples, samples)
    report = [item.name for item in stack.client.artifacts(run_id=run_id).items]
    assert "report.json" in report
    audit(stack)


def failed_claims(stack, run_id):
    """Return the ids and failures of the claims of a run that failed."""
    return stack.query("SELECT id, failure FROM claim WHERE run_id = %s AND failure IS NOT NULL", run_id)


def files_of(stack, run_id):
    """Return the names of a run's artifacts."""
    return {item.name for item in stack.client.artifacts(run_id=run_id).items}


def content_of(stack, run_id, name):
    """Download an artifact of a run."""
    [file] = [item for item in stack.client.artifacts(run_id=run_id).items if item.name == name]
    return (stack.home.root / "storage" / file.storage_key).read_bytes()


def why_requeued(stack, run_id):
    """Say why claims of a run were taken back; an assignment that a busy worker did not claim in time is none."""
    found = stack.query(
        "SELECT data->>'code' FROM event WHERE stream_id = %s AND type = 'job.requeued' AND data->>'kind' = 'GENERATE' "
        "AND data->>'outcome' <> 'unclaimed'",
        run_id,
    )
    return [code for (code,) in found]


def test_a_retune_holds_for_the_claim_that_takes_over_from_a_killed_worker(stack):
    target = {"model": "simulated-steady", "engine_params": {"ttft_ms": 400}}
    run_id = start(stack, target=target)
    stack.wait_done(run_id, 8)
    stack.client.runs.retune(run_id, in_flight=9)
    stack.wait_done(run_id, 100)
    stack.kill("inference")
    assert_exactly_once(stack, run_id, 600)
    streams = stack.query(
        "SELECT count(DISTINCT f.stream) FROM fact f JOIN claim c ON c.id = f.claim_id "
        "WHERE f.run_id = %s AND f.phase = 1 GROUP BY c.id, c.started_at ORDER BY c.started_at",
        run_id,
    )
    assert len(streams) >= 2
    assert streams[-1] == (9,)
    assert stack.client.runs.get(run_id).headline.validity == "interrupted"


def test_a_killed_inference_worker_costs_no_sample(stack):
    run_id = start(stack)
    stack.wait_done(run_id, 100)
    stack.kill("inference")
    assert_exactly_once(stack, run_id, 600)
    claims = stack.query("SELECT count(DISTINCT claim_id) FROM fact WHERE run_id = %s AND phase = 1", run_id)[0][0]
    assert claims >= 2
    assert why_requeued(stack, run_id) == ["worker_died"]
    [(dead, failure)] = failed_claims(stack, run_id)
    assert failure["code"] == "worker_died"
    # The samples and the engine's log of the dead worker, which its successor stored.
    assert {f"resources-{dead}.parquet", f"engine-{dead}.log"} <= files_of(stack, run_id)
    report = json.loads(content_of(stack, run_id, "report.json"))
    [listing] = [
        block
        for section in report["sections"]
        for block in section["blocks"]
        if "output, claim" in block.get("title", "")
    ]
    assert '"event": "listening"' in listing["text"]


def test_after_a_kill_work_goes_on_long_before_the_lease_has_run_out(registries):
    an_hour = {f"VLMHB_TIMERS__{name}": "3600" for name in ("LEASE_S", "SELF_FENCE_S", "STALE_WORKER_S")}
    with running_stack(registries, **{**an_hour, "VLMHB_TIMERS__SELF_FENCE_S": "3000"}) as stack:
        run_id = start(stack)
        stack.wait_done(run_id, 50)
        stack.kill("inference")
        assert_exactly_once(stack, run_id, 600)
        assert why_requeued(stack, run_id) == ["worker_died"]


def test_a_killed_engine_costs_no_sample(stack):
    run_id = start(stack)
    stack.wait_done(run_id, 100)
    engine = until(
        lambda: stack.query("SELECT engine->>'pid' FROM claim WHERE run_id = %s AND engine IS NOT NULL", run_id),
        "engine",
        PATIENCE_S,
    )
    os.kill(int(engine[-1][0]), signal.SIGKILL)
    assert_exactly_once(stack, run_id, 600)
    [(killed, failure)] = failed_claims(stack, run_id)
    assert failure["code"] == "engine_exited"
    assert "SIGKILL" in failure["message"]
    assert {f"resources-{killed}.parquet", f"engine-{killed}.log"} <= files_of(stack, run_id)
    pids = stack.query("SELECT DISTINCT engine->>'pid' FROM claim WHERE run_id = %s AND engine IS NOT NULL", run_id)
    assert len(pids) == 2
    report = json.loads(content_of(stack, run_id, "report.json"))
    assert "engine_exited" in json.dumps(report["sections"])


def test_a_timed_run_restarts_whole_when_its_worker_is_killed(stack):
    run_id = start(stack, scenario={"name": "single-stream", "requests": 120})
    stack.wait_done(run_id, 20)
    stack.kill("inference")
    assert_exactly_once(stack, run_id, 120)
    states = stack.query("SELECT state FROM phase WHERE run_id = %s AND kind = 'single_stream' ORDER BY no", run_id)
    assert states == [("VOID",), ("COMPLETE",)]


def test_a_timed_run_keeps_the_answer_that_a_living_engine_broke_and_asks_nothing_again(stack):
    scenario = {"name": "mine", "kind": "single_stream", "requests": 3, "warmup_requests": 0}
    run = stack.wait(start(stack, samples=3, target={"model": "simulated-flaky"}, scenario=scenario))
    # Every second answer, the probe's first: what broke at once is no sign that nobody answers.
    assert (run.state, run.total, run.done, run.failed) == ("PARTIAL", 3, 3, 2), stack.logs()
    rows = stack.query("SELECT ordinal, phase, COALESCE(error_code, status) FROM fact WHERE run_id = %s", run.id)
    assert sorted(rows) == [(0, 1, "connection_lost"), (1, 1, "ok"), (2, 1, "connection_lost")]
    assert stack.query("SELECT state FROM phase WHERE run_id = %s", run.id) == [("COMPLETE",)]
    audit(stack)


@pytest.mark.parametrize("name", ["evaluation", "reporting", "scheduler", "api"])
def test_any_other_service_may_be_killed(stack, name):
    run_id = start(stack, samples=200)
    stack.kill(name)
    assert_exactly_once(stack, run_id, 200)


def test_a_flushed_and_then_stopped_broker_costs_latency_only(stack):
    run_id = start(stack)
    stack.wait_done(run_id, 50)
    with redis.Redis.from_url(stack.setting("redis_url")) as client:
        client.flushall()
    second = start(stack, samples=50)
    pid = stack.kill("valkey", signal.SIGSTOP)
    try:
        third = start(stack, samples=50)
        for run, samples in ((run_id, 600), (second, 50), (third, 50)):
            assert_exactly_once(stack, run, samples)
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_restarted_database_costs_latency_only(stack):
    run_id = start(stack)
    stack.wait_done(run_id, 50)
    stack.kill("postgres", signal.SIGINT)
    assert_exactly_once(stack, run_id, 600)


def test_a_cancelled_run_ends_and_writes_nothing_more(stack):
    run_id = start(stack, samples=10_000)
    stack.wait_done(run_id, 50)
    stack.client.runs.cancel(run_id)
    run = stack.wait(run_id)
    assert run.state == "CANCELLED"
    rows = stack.rows(run_id)
    assert rows < 10_000
    other = start(stack, samples=30)
    assert_exactly_once(stack, other, 30)
    assert stack.rows(run_id) == rows
    audit(stack)


def test_a_run_that_is_cancelled_before_it_starts_never_starts(stack):
    running, waiting = start(stack, samples=300), start(stack, samples=300)
    stack.client.runs.cancel(waiting)
    assert stack.wait(waiting).state == "CANCELLED"
    assert stack.rows(waiting) == 0
    stack.client.runs.cancel(running)
    stack.wait(running)
    audit(stack)


def test_a_model_that_cannot_start_fails_its_run_with_the_reason(stack):
    run_id = start(stack, target={"model": "simulated-steady", "engine_params": {"crash_at_start": True}})
    run = stack.wait(run_id)
    assert run.state == "FAILED"
    assert "simulated-steady" in run.reason
    audit(stack)
