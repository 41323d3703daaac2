"""What operators see of a real stack: metrics of the platform and of each process, the trace of a run, logs."""

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import ExitStack, suppress

import pytest

from tests.architecture.dashboards import DASHBOARDS, dashboard
from tests.support.needs import skip_or_fail
from tests.support.otlp import receiving
from tests.support.processes import PATIENCE_S
from tests.support.stack import ROOT, running_stack, until
from vlmhyperbench.monitoring.catalogue import METRICS, PLATFORM
from vlmhyperbench.monitoring.numbers import find, read_text
from vlmhyperbench.registry.schemas import RunEntry

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def get(url, key=None, scheme="Bearer"):
    headers = {} if key is None else {"Authorization": f"{scheme} {key}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def free_ports(count):
    """Return the first of so many ports in a row that nothing listens on, below those that the system gives away.

    Each process of the tests begins elsewhere: between this and their use, nobody else takes them.
    """
    own = os.getpid() % 1000 * 10
    for first in (20_000 + (own + offset) % 10_000 for offset in range(0, 10_000, 10)):
        with ExitStack() as opened, suppress(OSError):
            for port in range(first, first + count):
                opened.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise AssertionError("no ports")


@pytest.fixture(scope="module")
def receiver():
    with receiving() as found:
        yield found


@pytest.fixture(scope="module")
def stack(registries, receiver):
    with running_stack(registries, VLMHB_METRICS_PORT=str(free_ports(8)), VLMHB_OTLP_ENDPOINT=receiver.url) as found:
        yield found


def entry(model, limit):
    return {
        "target": {"model": model},
        "task": "synthetic-questions",
        "dataset": {"name": "synthetic-questions", "limit": limit, "seed": 5},
    }


@pytest.fixture(scope="module")
def interrupted(stack):
    """A run under a client's trace whose inference worker was killed in the middle."""
    body = json.dumps({"run": entry("simulated-slow", 60)}).encode()
    request = urllib.request.Request(
        f"{stack.home.api_url()}/api/v1/runs",
        data=body,
        headers={"X-API-Key": stack.home.api_key(), "Content-Type": "application/json", "traceparent": PARENT},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        run_id = json.loads(answer.read())["id"]
    stack.wait_done(run_id, 1)
    [(killed,)] = stack.query("SELECT claim_id FROM job WHERE run_id = %s AND kind = 'GENERATE'", run_id)
    stack.kill("inference")
    ended = stack.wait_without_pauses(run_id)
    assert ended.state == "SUCCEEDED", ended
    return ended, killed


def targets(stack, name):
    return json.loads((stack.home.run / f"metrics-{name}.json").read_text())


def test_the_platforms_metrics_need_a_key_of_their_own_scope(stack):
    url = f"{stack.home.api_url()}/metrics"
    assert get(url)[0] == 401
    assert get(url, stack.home.metrics_key())[0] == 200
    assert get(url, stack.home.metrics_key(), scheme="Basic")[0] == 401
    assert get(f"{stack.home.api_url()}/api/v1/runs", stack.home.metrics_key())[0] == 403


def test_every_metric_of_the_table_is_served_by_whom_it_names(stack, interrupted):
    def names(text):
        return {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE vlmhyperbench")}

    platform = names(get(f"{stack.home.api_url()}/metrics", stack.home.metrics_key())[1])
    assert platform == {metric.full_name for metric in METRICS.values() if metric.source == PLATFORM}
    own = {metric.full_name for metric in METRICS.values() if metric.source != PLATFORM}
    for target in targets(stack, "processes"):
        [address] = target["targets"]
        assert {name for name in names(get(f"http://{address}/metrics")[1]) if not name.endswith("_created")} == own
        assert get(f"http://{address}/healthz") == (200, "ok\n")
        assert get(f"http://{address}/other")[0] == 404


def test_the_numbers_are_those_of_the_database(stack, interrupted):
    def served():
        return read_text(get(f"{stack.home.api_url()}/metrics", stack.home.metrics_key())[1])

    def shows_all_ended():
        [number] = find(served(), "runs", state="SUCCEEDED")
        return number.value == ended

    [(ended,)] = stack.query("SELECT count(*) FROM run WHERE state = 'SUCCEEDED'")
    assert ended >= 1
    # They are kept for a while after they were read: on a busy machine, for longer than the last run has ended.
    until(shows_all_ended, "all runs that ended", PATIENCE_S)
    numbers = served()
    assert {number.labels["kind"] for number in find(numbers, "queue_depth")} == {
        "inference",
        "evaluation",
        "report",
        "index",
    }
    [leads] = find(numbers, "scheduler_up")
    assert leads.value == 1


def test_status_shows_the_same_numbers(stack, interrupted, program):
    stable = {"build_info", "runs", "scheduler_up", "redis_up", "workers", "worker_slots", "devices"}

    def in_form(numbers):
        return sorted((name, sorted(labels.items()), value) for name, labels, value in numbers)

    def shown():
        said = json.loads(program("status").stdout)["data"]["numbers"]
        return in_form((row["name"], row["labels"], row["value"]) for row in said if row["name"] in stable)

    def served():
        numbers = read_text(get(f"{stack.home.api_url()}/metrics", stack.home.metrics_key())[1])
        return in_form((row.name, row.labels, row.value) for row in numbers if row.name in stable)

    assert {name for name, *_ in served()} == stable
    until(lambda: shown() == served(), "the same numbers", PATIENCE_S, last=lambda: (shown(), served()))


def test_a_run_is_one_whole_trace_also_after_its_worker_was_killed(stack, receiver, interrupted):
    _, killed = interrupted
    trace_id, client_span = PARENT.split("-")[1:3]

    def whole():
        spans = receiver.trace(trace_id)
        ids = {span.span_id for span in spans}
        return {"run", "job REPORT"} <= {span.name for span in spans} and all(
            span.parent_id in ids or span.parent_id == client_span for span in spans
        )

    until(whole, "a whole trace", PATIENCE_S, last=lambda: receiver.trace(trace_id))
    spans = receiver.trace(trace_id)
    [root] = [span for span in spans if span.parent_id == client_span]
    assert (root.name, root.service, root.error) == ("run", "vlmhyperbench-scheduler", "")
    assert len({span.span_id for span in spans}) == len(spans)
    generated = sorted((span for span in spans if span.name == "job GENERATE"), key=lambda span: span.start_ns)
    assert [span.error for span in generated] == ["worker_died", ""]
    assert generated[0].span_id == killed.hex[16:]
    assert {span.service for span in spans} == {
        "vlmhyperbench-api",
        "vlmhyperbench-scheduler",
        "vlmhyperbench-inference-worker",
        "vlmhyperbench-eval-worker",
        "vlmhyperbench-reporter",
    }
    below = {span.name for span in spans if span.parent_id == generated[1].span_id}
    assert {"bring up target", "probe", "requests"} <= below
    assert {"submit", "assign", "job INDEX", "job SCORE", "job REPORT", "metric"} <= {span.name for span in spans}
    # A job is assigned again where its worker does not claim it in time.
    assert len([span for span in spans if span.name != "assign"]) < 60, "no span for each request"


def test_every_line_of_a_worker_that_works_for_a_job_names_run_job_and_trace(stack, interrupted):
    run, _ = interrupted
    lines = [
        json.loads(line)
        for name in ("inference", "evaluation", "reporting")
        for line in stack.home.log_of(name).read_text().splitlines()
        if line.startswith("{")
    ]
    claimed = [line for line in lines if line["event"] == "job.claimed" and line.get("run_id") == str(run.id)]
    assert {line["kind"] for line in claimed} == {"INDEX", "GENERATE", "SCORE", "REPORT"}
    for line in claimed:
        assert re.fullmatch(r"[0-9a-f-]{36}", line["job_id"])
        assert line["trace_id"] == PARENT.split("-")[1]
    key = stack.home.api_key().split("_", 1)[1]
    assert key not in stack.logs()


@pytest.fixture(scope="module")
def prometheus(stack, tmp_path_factory):
    """A real Prometheus that reads the stack."""
    program = shutil.which("prometheus")
    if program is None:
        skip_or_fail("Prometheus is not installed.", "VLMHB_NEED_MONITORING")
    folder = tmp_path_factory.mktemp("prometheus")
    for name in ("prometheus.embedded.yml", "rules.yml"):
        shutil.copy(ROOT / "deploy/monitoring" / name, folder)
    for name in ("metrics-key", "metrics-api.json", "metrics-processes.json"):
        shutil.copy(stack.home.run / name, folder)
    port = free_ports(1)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                "--config.file=prometheus.embedded.yml",
                "--storage.tsdb.path=data",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            cwd=folder,
            stdout=log,
            stderr=log,
            env={**os.environ, "GOMAXPROCS": "1"},
        )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def ask(prometheus, path, **values):
    try:
        status, text = get(f"{prometheus}/api/v1/{path}?{urllib.parse.urlencode(values)}")
    except OSError:
        return None
    return json.loads(text) if status < 500 else None


def test_a_real_prometheus_reads_everything_and_every_panel_shows_data(stack, interrupted, prometheus):
    def up():
        answer = ask(prometheus, "query", query="sum(up) / count(up)")
        found = answer and answer["data"]["result"]
        return found and found[0]["value"][1] == "1"

    until(up, "all targets up", PATIENCE_S)
    panels = [(name, panel) for name in DASHBOARDS for panel in dashboard(name)["panels"]]
    run = stack.client.runs.create(RunEntry.model_validate(entry("simulated-instant", 10)))
    stack.wait(run.id)

    def empty():
        now = time.time()
        missing = []
        for name, panel in panels:
            found = []
            for target in panel["targets"]:
                query = target["expr"].replace("$__rate_interval", "1m")
                answer = ask(prometheus, "query_range", query=query, start=now - 120, end=now, step=5)
                assert answer is not None
                assert answer["status"] == "success", (panel["title"], answer)
                found += answer["data"]["result"]
            if not found:
                missing.append((name, panel["title"]))
        return missing

    until(lambda: not empty(), "data in every panel", PATIENCE_S, last=empty)
    rules = ask(prometheus, "rules")["data"]["groups"][0]["rules"]
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}
    assert len(rules) >= 13
