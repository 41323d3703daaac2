"""An endpoint that refuses what a run asks of everybody, at the doors where users see it: no score comes of it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.test_main_job import content
from tests.refusals import Refusal, refusal
from tests.refusals.server import ANSWERED, RefusingServer, refusing
from tests.support.processes import PATIENCE_S
from vlmhyperbench.cli import exits
from vlmhyperbench.cli.main import main
from vlmhyperbench.registry.schemas import RunEntry

QUESTIONS = {"name": "synthetic-questions", "limit": 12}
WARMUP = 2
"""Of the scenario `offline`."""


@contextmanager
def endpoint(refuse: Callable[[int], Refusal | None]) -> Iterator[RefusingServer]:
    """Serve in a thread of its own, so that a test may wait for its run."""
    found, ready, ended = list[RefusingServer](), threading.Event(), threading.Event()

    async def serve() -> None:
        async with refusing(refuse) as served:
            found.append(served)
            ready.set()
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(PATIENCE_S)
    try:
        yield found[0]
    finally:
        ended.set()
        thread.join(PATIENCE_S)


@pytest.fixture(autouse=True)
def _door(stack, monkeypatch):
    monkeypatch.setenv("VLMHB_API_URL", stack.home.api_url())
    monkeypatch.setenv("VLMHB_API_KEY", stack.home.api_key())


def entry(url, name, **changes):
    target = {"endpoint": url, "model_name": "some-model"}
    given = {"name": name, "target": target, "task": "synthetic-questions", "dataset": QUESTIONS}
    return RunEntry.model_validate({**given, **changes})


def scored(stack, run):
    return stack.query("SELECT count(*) FROM measure_manifest WHERE run_id = %s", run.id)[0][0]


@pytest.mark.parametrize(
    ("server", "case", "rule"),
    [
        ("transformers serve", "unknown model", "unknown_model"),
        ("vLLM", "unknown model", "unknown_model"),
        ("OpenAI", "max_tokens refused", "unknown_field"),
        ("vLLM", "broken schema", "unsupported_format"),
        ("vLLM", "wrong key", "key_refused"),
    ],
)
def test_a_request_that_is_wrong_for_everybody_ends_the_run_without_a_score(stack, capsys, server, case, rule):
    said = refusal(server, case)
    with endpoint(lambda _: said) as served:
        flags = ["--endpoint", served.url, "--model-name", "some-model", "--task", "synthetic-questions"]
        code = main(["run", *flags, "--quiet"])
        shown = capsys.readouterr().out
        (run,) = stack.client.runs.list(limit=1).items
        run = stack.client.runs.get(run.id)
    assert code == exits.RUN_FAILED
    assert (run.state, run.done, scored(stack, run)) == ("FAILED", 0, 0)
    assert [(error.rule, error.cause, error.count) for error in run.errors] == [(rule, "configuration", 1)]
    assert len(served.bodies) == 1
    host = served.url.removeprefix("http://").removesuffix("/v1")
    for text in (run.reason, shown):
        assert host in text
        assert run.errors[0].message[:60] in text
    assert "0.0 %" not in shown


def test_what_every_request_gets_after_a_probe_that_passed_ends_the_run(stack, capsys):
    unheard_of = refusal("llama.cpp", "no messages")
    with endpoint(lambda number: unheard_of if number else ANSWERED) as served:
        run = stack.wait(stack.client.runs.create(entry(served.url, "later")).id)
    assert (run.state, scored(stack, run)) == ("FAILED", 0)
    assert "'messages' is required" in run.reason
    assert [(error.rule, error.cause, error.count) for error in run.errors] == [("refused", "configuration", 12)]


def test_a_single_refusal_among_answers_counts_against_the_model_and_is_told(stack, capsys):
    with endpoint(lambda number: refusal("vLLM", "prompt too long") if number == 5 else ANSWERED) as served:
        run = stack.wait(stack.client.runs.create(entry(served.url, "odd")).id)
    assert (run.state, run.done, run.failed, scored(stack, run)) == ("PARTIAL", 12, 1, 1)
    (error,) = run.errors
    assert (error.rule, error.cause, error.count, error.http_status) == ("context_exceeded", "sample", 1, 400)
    (row,) = [result for result in stack.client.results(run_id=run.id, limit=50).items if result.status == "error"]
    assert row.measures[0].value == 0.0
    report = json.loads(content(stack, run.id, "report.json"))
    assert error.message[:60] in report["verdict"][2]
    assert "errors" in [section["name"] for section in report["sections"]]
    assert main(["show", str(run.id)]) == exits.OK
    shown = capsys.readouterr().out
    assert error.message[:60] in shown
    assert main(["watch", str(run.id), "--quiet"]) == exits.RUN_FAILED  # more than 5 % failed
    assert error.message[:60] in capsys.readouterr().out


def test_a_probe_whose_prompt_is_too_long_lets_the_run_go_on(stack):
    with endpoint(lambda number: refusal("vLLM", "prompt too long") if number == 0 else ANSWERED) as served:
        run = stack.wait(stack.client.runs.create(entry(served.url, "goes-on")).id)
    assert (run.state, run.done, run.failed, run.errors) == ("SUCCEEDED", 12, 0, [])
    assert len(served.bodies) == 2 + WARMUP + 12


def test_a_target_that_has_answered_the_same_options_is_not_probed_again(stack):
    with endpoint(lambda _: ANSWERED) as served:
        for probes, changes in ((1, {}), (0, {}), (1, {"decoding": {"max_tokens": 5}})):
            served.bodies.clear()
            run = stack.wait(stack.client.runs.create(entry(served.url, "again", **changes)).id)
            assert (run.state, run.done, len(served.bodies)) == ("SUCCEEDED", 12, probes + WARMUP + 12)


def test_a_busy_endpoint_is_no_misconfigured_one(stack):
    with endpoint(lambda _: refusal("OpenAI", "overloaded")) as served:
        run = stack.wait(stack.client.runs.create(entry(served.url, "busy", limits={"tries": 1})).id)
    assert (run.state, run.failed) == ("PARTIAL", 12)
    assert [(error.rule, error.cause, error.count) for error in run.errors] == [("busy", "infrastructure", 12)]


def test_load_says_what_the_server_said_and_measures_nothing(capsys):
    with endpoint(lambda _: refusal("vLLM", "unknown model")) as served:
        code = main(["load", served.url, "--model", "some-model", "--requests", "4", "--quiet"])
    assert code == exits.SETUP
    shown = capsys.readouterr()
    assert "valid" not in shown.out
    assert "`no-such-model`" in shown.err
