"""Timed scenarios through every service: a fixed schedule of arrivals, parallel streams, a baseline phase."""

import itertools

import numpy as np
import pytest

from tests.support.audit import audit
from tests.support.http_servers import Recorder, serving
from tests.support.processes import PATIENCE_S
from tests.support.stack import until
from vlmhyperbench.domain.arrivals import Arrivals, draw_arrivals
from vlmhyperbench.registry.schemas import RunEntry

ARRIVALS = {"process": "gamma", "rate_per_s": 20, "cv": 1.5}
QUICK = {"model": "simulated-quick"}


@pytest.fixture(scope="module")
def registries(registries):
    """Add a model that answers in 30 ms."""
    (registries / "models" / "simulated-quick.yaml").write_text(
        "backends: [simulated]\nengine_params: {ttft_ms: 20, gap_ms: 10, tokens: 2, usage: always}\n"
    )
    return registries


def measure(stack, scenario, *, limit=30, target=QUICK, task="synthetic-questions", dataset="synthetic-questions"):
    asked = {"name": dataset, "limit": limit}
    given = {"target": target, "task": task, "dataset": asked, "scenario": scenario}
    run = stack.wait(stack.client.runs.create(RunEntry.model_validate(given)).id)
    assert run.state == "SUCCEEDED", run.reason
    audit(stack)
    return run


def rows_of(stack, run, kind, columns):
    return stack.query(
        f"SELECT {columns} FROM fact f JOIN phase p ON p.run_id = f.run_id AND p.no = f.phase "
        "WHERE f.run_id = %s AND p.kind = %s AND p.state = 'COMPLETE' ORDER BY ordinal",
        run.id,
        kind,
    )


def test_requests_of_an_open_loop_are_scheduled_as_they_were_drawn(stack):
    scenario = {"name": "mine", "kind": "server", "arrivals": ARRIVALS, "requests": 50, "seed": 3, "in_flight": 2}
    run = measure(stack, scenario)
    assert (run.total, run.done) == (50, 50)
    rows = rows_of(stack, run, "server", "scheduled_ns, sent_ns, sample, repeat")
    scheduled = np.array([row[0] for row in rows])
    drawn = draw_arrivals(Arrivals(**ARRIVALS), count=50, seed=3)
    assert np.diff(scheduled).tolist() == np.diff(drawn).tolist()
    assert all(sent >= at for at, sent, *_ in rows)
    # More requests than samples: the twenty last ask the first samples once more.
    assert [row[2:] for row in rows[28:32]] == [(28, 0), (29, 0), (0, 1), (1, 1)]


def test_a_slow_engine_moves_no_arrival(stack):
    arrivals = {"process": "constant", "rate_per_s": 20}
    scenario = {"name": "mine", "kind": "server", "arrivals": arrivals, "duration_s": 1, "warmup_requests": 0}
    run = measure(stack, scenario, target={"model": "simulated-slow"})
    rows = rows_of(stack, run, "server", "scheduled_ns, latency_ns, stream_end_ns")
    # Twenty requests within a second, though each takes half of one: several are under way at a time.
    assert [b[0] - a[0] for a, b in itertools.pairwise(rows)] == [50_000_000] * 19
    assert rows[1][0] < rows[0][2]
    assert all(row[1] >= 500_000_000 for row in rows)


def test_streams_send_one_request_at_a_time_each_and_their_baseline_is_no_answer_of_the_run(stack):
    scenario = {"name": "mine", "kind": "multi_stream", "in_flight": 3, "requests": 24, "baseline_requests": 5}
    run = measure(stack, scenario | {"warmup_requests": 2})
    assert (run.total, run.done) == (24, 24)
    rows = rows_of(stack, run, "multi_stream", "stream, sent_ns, stream_end_ns")
    by_stream = [[row for row in rows if row[0] == stream] for stream in range(3)]
    assert [len(own) for own in by_stream] == [8, 8, 8]
    for own in by_stream:
        assert all(before[2] <= after[1] for before, after in itertools.pairwise(own))
    assert any(
        one[1] < other[2] and other[1] < one[2]
        for mine, theirs in itertools.combinations(by_stream, 2)
        for one, other in itertools.product(mine, theirs)
    )
    assert stack.query("SELECT kind, count FROM phase WHERE run_id = %s ORDER BY kind", run.id) == [
        ("baseline", 5),
        ("multi_stream", 24),
        ("warmup", 2),
    ]
    baseline = sorted(rows_of(stack, run, "baseline", "sent_ns, stream_end_ns"))
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(baseline))
    assert baseline[-1][1] <= min(row[1] for row in rows)
    assert len(stack.client.results(run_id=run.id, limit=100).items) == 24


def test_who_watches_sees_speeds_while_they_are_measured(stack):
    dataset = {"name": "synthetic-questions", "limit": 1000}
    given = {"target": {"model": "simulated-slow"}, "task": "synthetic-questions", "dataset": dataset}
    run = stack.client.runs.create(RunEntry.model_validate(given))

    def speeds():
        progress = stack.client.runs.get(run.id).progress
        found = progress.speeds if progress is not None else None
        return found if found is not None and found.latency_p50_ms is not None else None

    seen = until(speeds, "speeds of a run that is measured", PATIENCE_S)
    assert seen.in_flight <= 4
    stack.client.runs.cancel(run.id)
    assert stack.wait(run.id).state == "CANCELLED"
    rows = stack.query("SELECT ttft_user_ns, latency_ns FROM fact WHERE run_id = %s AND status = 'ok'", run.id)
    # Sixteen tokens, the first after 200 ms, the others 20 ms apart; percentiles are within 0.5 %.
    for speed, least, values in zip(
        (seen.ttft_p50_ms, seen.latency_p50_ms), (200, 500), zip(*rows, strict=True), strict=True
    ):
        assert least * 0.995 <= speed <= max(values) / 1e6 * 1.005


@pytest.fixture
def recorder():
    """Return the URL of a server that keeps what it is asked by one test."""
    Recorder.heard.clear()
    with serving(Recorder) as url:
        yield f"{url}/v1"


def test_a_turn_quotes_what_was_answered_about_the_page_that_all_are_about(stack, recorder):
    scenario = {"name": "mine", "kind": "interactive", "in_flight": 2, "turns": 3, "think_s": 0.2, "warmup_requests": 0}
    target = {"endpoint": recorder, "model_name": "recorder"}
    run = measure(stack, scenario, limit=14, target=target, task="document-qa", dataset="synthetic-documents")
    assert (run.total, run.done) == (14, 14)
    rows = rows_of(stack, run, "interactive", "turn, stream, scheduled_ns, stream_end_ns")
    # The first that was heard is the probe.
    talks = {turn: [heard for heard in Recorder.heard[1:] if len(heard) == 1 + 2 * turn] for turn in range(3)}
    assert [len(talks[turn]) for turn in range(3)] == [sum(row[0] == turn for row in rows) for turn in range(3)]
    for third in talks[2]:
        assert [message["role"] for message in third] == ["user", "assistant", "user", "assistant", "user"]
        assert [message["content"] for message in third[1::2]] == ['heard "1"', 'heard "3"']
        assert third[:3] in talks[1]
        assert [type(message["content"]) for message in third[0::2]] == [list, str, str]  # the page comes once
    for stream in range(2):
        own = sorted((row for row in rows if row[1] == stream), key=lambda row: row[2])
        pairs = [(before, after) for before, after in itertools.pairwise(own) if after[0] > 0]
        assert pairs
        assert all(after[0] == before[0] + 1 for before, after in pairs)
        assert all(after[2] - before[3] == pytest.approx(200_000_000, abs=5_000_000) for before, after in pairs)


def test_conversations_arrive_at_a_rate_whether_or_not_earlier_ones_have_ended(stack, recorder):
    arrivals = {"process": "constant", "rate_per_s": 5}
    scenario = {"name": "mine", "kind": "interactive", "turns": 2, "arrivals": arrivals, "warmup_requests": 0}
    target = {"endpoint": recorder, "model_name": "recorder"}
    run = measure(stack, {**scenario, "requests": 8}, limit=8, target=target, task="load", dataset="load")
    rows = rows_of(stack, run, "interactive", "turn, stream, scheduled_ns, stream_end_ns")
    assert sorted((turn, stream) for turn, stream, *_ in rows) == [(turn, talk) for turn in (0, 1) for talk in range(4)]
    begun = sorted((stream, scheduled_ns) for turn, stream, scheduled_ns, _ in rows if turn == 0)
    assert [later[1] - earlier[1] for earlier, later in itertools.pairwise(begun)] == [200_000_000] * 3
