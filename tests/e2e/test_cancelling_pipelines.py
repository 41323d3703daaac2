"""A run of a pipeline that is cancelled while an answer is repaired, while answers are scored, or in its report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

import pytest

from tests.support.audit import audit
from tests.support.http_servers import Recorder, serving
from tests.support.processes import PATIENCE_S, wait_until_ended
from tests.support.stack import Stack, running_stack, until
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench.wire.runs import RunRerun

ROOT = Path(__file__).parents[2]
SAMPLES = 6
MODELS = {"says-blue": "blue", "says-red": "red"}
PLUGINS = {
    "metrics": {"class_path": "tests.support.endless_plugins:EndlessMetric", "version": "1.0.0", "profile": "v1"},
    "reports": {"class_path": "tests.support.endless_plugins:EndlessReport"},
}


class Merger(Recorder):
    """An endpoint whose first reply is empty, and which lets whoever asks it to repair that wait, at first."""

    is_patient: ClassVar[Event] = Event()
    """Whether repairs are answered."""
    was_asked: ClassVar[Event] = Event()
    was_left: ClassVar[Event] = Event()

    def do_POST(self) -> None:  # noqa: N802 - the name that the library calls
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        is_repair = "it cannot be used" in json.dumps(body["messages"])
        if is_repair and not self.is_patient.is_set():
            self.was_asked.set()
            with suppress(ConnectionError):  # returns, or is reset, when the client has left
                self.rfile.read(1)
            self.was_left.set()
            return
        content = "green" if is_repair else " "
        delta = {"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": "stop"}]}
        self._send(f"data: {json.dumps(delta)}\n\ndata: [DONE]\n\n".encode(), "text/event-stream")


@pytest.fixture(scope="module")
def merger() -> Iterator[str]:
    """Return the URL of the endpoint that merges."""
    with serving(Merger) as url:
        yield url


@pytest.fixture(scope="module")
def markers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the plugins say where they run."""
    return tmp_path_factory.mktemp("markers")


@pytest.fixture(scope="module")
def stack(registries: Path) -> Iterator[Stack]:
    """A stack that may ask an endpoint of this machine, and whose writers of reports find the plugins of tests."""
    with running_stack(registries, VLMHB_ALLOW_LOOPBACK_TARGETS="true", PYTHONPATH=str(ROOT)) as found:
        yield found


@pytest.fixture(scope="module")
def registries(registries: Path, merger: str, markers: Path) -> Path:
    """Add engines that always say the same, pipelines of them, and plugins that do not end."""

    def add(kind: str, name: str, entry: dict[str, object]) -> None:
        (registries / kind).mkdir(exist_ok=True)
        (registries / kind / f"{name}.yaml").write_text(json.dumps({"description": "For tests.", **entry}))

    for name, answer in MODELS.items():
        params = {"ttft_ms": 1, "gap_ms": 0, "usage": "always", "answer": answer}
        add("models", name, {"backends": ["simulated"], "engine_params": params})
    for kind, plugin in PLUGINS.items():
        add(kind, "endless", {**plugin, "params": {"marker": str(markers / kind)}})
    by = {"endpoint": merger, "model_name": "recorder"}
    read = {"id": "read", "type": "multi", "models": [*MODELS]}
    merges = {"type": "synthesis", "model": by, "on_invalid": "fail"}
    add("pipelines", "repairs", {"stages": [{**read, "aggregation": merges}]})
    add("pipelines", "votes", {"stages": [{**read, "aggregation": {"type": "vote"}}]})
    return registries


def entry(pipeline: str, **changes: object) -> RunEntry:
    given = {
        "target": {"pipeline": pipeline},
        "task": "synthetic-questions",
        "dataset": {"name": "synthetic-questions", "limit": SAMPLES},
        "metrics": ["exact_match"],
        "reports": ["json"],
        "limits": {"tries": 1},
    }
    return RunEntry.model_validate({**given, **changes})


def asked_again(stack: Stack, run: Any) -> list[tuple[str | None, str | None, int, int]]:
    """Return what the phases of a run have: role, model, rows of its own, reused rows."""
    return stack.query(
        "SELECT p.params->>'role', p.params->>'member', "
        "(SELECT count(*) FROM fact f WHERE f.run_id = p.run_id AND f.phase = p.no), "
        "(SELECT count(*) FROM reused_fact r WHERE r.run_id = p.run_id AND r.phase = p.no) "
        "FROM phase p WHERE p.run_id = %s AND p.kind = 'member' ORDER BY p.no",
        run.id,
    )


def cancelled_whole(stack: Stack, run: Any) -> None:
    """Cancel a run, and check that nothing of it is left."""
    stack.client.runs.cancel(run.id)
    assert stack.wait(run.id).state == "CANCELLED", stack.logs()
    open_jobs = "SELECT kind, state FROM job WHERE run_id = %s AND state NOT IN ('DONE', 'FAILED', 'CANCELLED')"
    assert stack.query(open_jobs, run.id) == []
    audit(stack)


def test_a_run_that_is_cancelled_while_an_answer_is_repaired_is_repaired_by_its_rerun(stack: Stack) -> None:
    run = stack.client.runs.create(entry("repairs"))
    assert Merger.was_asked.wait(PATIENCE_S), stack.logs()
    cancelled_whole(stack, run)
    assert Merger.was_left.wait(PATIENCE_S), stack.logs()
    assert stack.query("SELECT 1 FROM job WHERE run_id = %s AND kind = 'SCORE' AND state = 'DONE'", run.id) == []
    Merger.is_patient.set()
    again = stack.wait_without_pauses(stack.client.runs.rerun(run.id).id)
    assert (again.state, again.done, again.failed) == ("SUCCEEDED", SAMPLES, 0), (again.reason, stack.logs())
    assert {result.text for result in stack.client.results(run_id=again.id, limit=100).items} == {"green"}
    # Of an endpoint that states no version no answer is reused.
    assert asked_again(stack, again) == [
        ("member", "says-blue", 0, SAMPLES),
        ("member", "says-red", 0, SAMPLES),
        ("merge", "recorder", SAMPLES, 0),
        ("repair", "recorder", SAMPLES, 0),
    ]
    audit(stack)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [("metrics", {"metrics": ["exact_match", "endless"]}), ("reports", {"reports": ["json", "endless"]})],
    ids=["scoring", "reporting"],
)
def test_a_run_that_is_cancelled_in_a_plugin_ends_it_and_its_rerun_asks_no_model(
    stack: Stack, markers: Path, kind: str, changes: dict[str, object]
) -> None:
    run = stack.client.runs.create(entry("votes", **changes))
    marker = markers / kind
    until(marker.is_file, f"a plugin of the kind {kind} that runs", PATIENCE_S, stack.logs)
    cancelled_whole(stack, run)
    wait_until_ended(int(marker.read_text()))
    again = stack.wait_without_pauses(stack.client.runs.rerun(run.id, RunRerun(run=entry("votes"))).id)
    assert (again.state, again.done, again.failed) == ("SUCCEEDED", SAMPLES, 0), (again.reason, stack.logs())
    assert [(own, kept) for _, _, own, kept in asked_again(stack, again)] == [(0, SAMPLES)] * len(MODELS)
    audit(stack)
