"""Progress, tables, results and errors as the commands print them."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.builders import shown_run
from tests.support.wording import Wording
from vlmhyperbench.cli import exits
from vlmhyperbench.cli.headline import print_runs, print_scores, print_table
from vlmhyperbench.cli.ls import run_table
from vlmhyperbench.cli.output import emit, print_error
from vlmhyperbench.cli.watch import state_of
from vlmhyperbench.client.progress import Lines, describe, watching
from vlmhyperbench.errors import Conflict, Denied, Fenced, InvalidInput, NotFound, PluginFailure, Unavailable
from vlmhyperbench.registry.errors import RegistryError, RegistryErrors
from vlmhyperbench.wire.live import Progress
from vlmhyperbench.wire.runs import Run

RUN = UUID(int=1)


def _progress(done: int, **fields: object) -> Progress:
    return Progress(run_id=RUN, stage="inference", done=done, total=200, **fields)


def test_progress_is_one_line_with_rate_and_time_left() -> None:
    assert describe(_progress(50, rate_per_s=12.34, eta_s=65.2)) == "inference 50/200 (25%) 12.3/s ETA 1:05"
    speeds = {"in_flight": 4, "output_tokens_per_s": 81.6, "ttft_p50_ms": 20.4, "ttft_p99_ms": 31.0}
    assert (
        describe(_progress(50, speeds=speeds)) == "inference 50/200 (25%) 4 in flight 82 tokens/s TTFT p50/p99 20/31 ms"
    )
    taken = {"cpu_util_percent": 97.6, "memory_used_bytes": 2**33, "engine_rss_bytes": 62 * 2**20}
    assert describe(_progress(50, resources=taken)) == "inference 50/200 (25%) engine 62 MiB CPU 98 %"
    of_gpu = {"accelerator_memory_used_bytes": 2**33, "accelerator_util_percent": 81.2, "power_accelerator_w": 240.4}
    assert describe(_progress(50, resources={**taken, "engine_rss_bytes": None, **of_gpu})) == (
        "inference 50/200 (25%) accelerators 8,192 MiB 81 % 240 W CPU 98 %"
    )
    assert describe(_progress(50, failed=2)) == "inference 50/200 (25%) 2 failed"
    assert describe(Progress(run_id=RUN, stage="index", done=3)) == "index 3"


def test_progress_lines_are_printed_for_changes_and_at_the_end_only(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines({RUN: "mine"})
    for done in range(200):
        lines.progress(_progress(done))
    for _ in range(3):
        lines.progress(_progress(200))
        lines.state(RUN, "RUNNING")
    printed = capsys.readouterr().err.splitlines()
    assert printed == ["mine: inference 0/200 (0%)", "mine: inference 200/200 (100%)", "mine: running"]


@pytest.mark.parametrize("is_terminal", [False, True])
def test_control_characters_in_a_message_are_escaped(monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "300")
    with watching(True, {RUN: "mine"}) as display:
        display.progress(Progress(run_id=RUN, stage="waiting", done=0, waits_for="it said \x1b[2J[/b]"))
    assert "waiting: it said \\x1b[2J[/b]" in screen.getvalue()
    assert "\x1b[2J" not in screen.getvalue()


def test_the_comparison_table_shows_values_with_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "run": str(uuid4()),
        "name": "tiny",
        "state": "SUCCEEDED",
        "metrics": {"anls": {"value": 0.51234, "ci_low": 0.4, "ci_high": 0.6, "n": 200}, "bleu": {"value": None}},
        "latency_p50_ms": 12.6,
        "latency_p99_ms": None,
        "requested": 200,
        "ok": 199,
    }
    print_table({"rows": [row, {**row, "name": "q4", "metrics": {}}]})
    columns, first, second = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert columns == ["run", "state", "ok", "anls", "bleu", "p50 ms"]
    assert first == ["tiny", "SUCCEEDED", "199/200", "0.512 [0.400, 0.600]", "–", "13"]
    assert second[3] == "–"


def test_a_column_marks_invalid_speeds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = {"name": "a", "state": "SUCCEEDED", "requested": 1, "ok": 1, "latency_p50_ms": 12.6, "validity": "valid"}
    print_table({"rows": [row, {**row, "name": "b", "validity": "invalid"}]})
    columns, first, second = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert columns[3:] == ["speeds", "p50 ms"]
    assert (first[3:], second[3:]) == (["valid", "13"], ["INVALID", "13"])


def test_the_owner_of_the_memory_is_printed_if_runs_differ_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    on_cpu, on_gpu = (
        {"name": of, "metrics": {}, "peak_memory_bytes": size * 2**20, "peak_memory_of": of}
        for of, size in (("engine", 62), ("accelerators", 8192))
    )
    print_table({"rows": [on_cpu, {**on_cpu, "name": "other"}]})
    assert "62 engine" not in capsys.readouterr().out
    print_table({"rows": [on_cpu, on_gpu]})
    out = capsys.readouterr().out
    assert "62 engine" in out
    assert "8192 accelerators" in out


def test_without_a_headline_the_table_has_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(None)
    assert capsys.readouterr().out == "run\tstate\tok\n"


def test_the_envelope_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    emit("runs", [{"a": 1}], next_cursor="c", warnings=["w"])
    line = capsys.readouterr().out
    assert line.count("\n") == 1
    assert json.loads(line) == {
        "schema": "vlmhb/v1",
        "kind": "runs",
        "data": [{"a": 1}],
        "next": "c",
        "warnings": ["w"],
    }


def test_every_error_is_printed_with_its_location(capsys: pytest.CaptureFixture[str]) -> None:
    errors = [RegistryError(file="a.yaml", line=2, field="task", message="m.", cure="c."), RegistryError(message="n.")]
    print_error(RegistryErrors(errors), as_json=True)
    captured = capsys.readouterr()
    assert captured.err.splitlines() == ["error: 2 errors:", "  n.", "  a.yaml:2: task: m. c."]
    assert len(json.loads(captured.out)["data"]["errors"]) == 2
    print_error(RegistryErrors(errors[:1]), as_json=False)
    assert capsys.readouterr().err.splitlines() == ["error: a.yaml:2: task: m.", "  c."]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInput("x"), 2),
        (NotFound("x"), 2),
        (Unavailable("x"), 3),
        (Conflict("x"), 3),
        (Fenced("x"), 3),
        (Denied("x"), 3),
        (PluginFailure("x"), 1),
    ],
)
def test_an_error_has_an_exit_code(error: Exception, code: int) -> None:
    assert exits.code_of(error) == code


def _shown_run(**changes: Any) -> Run:
    created_at = datetime(2026, 1, 2, tzinfo=UTC)
    given = {"id": RUN, "name": "m · t", "total": 200, "done": 200, "failed": 3, "created_at": created_at}
    return Run.model_validate(shown_run(**{**given, "finished_at": None, **changes}))


HEADLINE = {
    "scores": [
        {"metric": "anls", "value": 0.9774, "ci_low": 0.97, "ci_high": 0.983, "n": 197, "n_without_value": 3},
        {"metric": "bleu", "value": None, "n": 0, "n_without_value": 200},
    ],
    "requested": 200,
    "ok": 197,
    "model_failures": 2,
    "infrastructure_failures": 1,
    "validity": "invalid",
    "latency_p50_ms": 12.62,
    "samples_per_s": 1234.5,
    "peak_memory_bytes": 62 * 2**20,
}


def test_the_results_of_a_run_are_its_scores_failures_and_speeds(
    capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    print_scores(_shown_run(headline=HEADLINE))
    columns, anls, bleu, answers, speed = capsys.readouterr().out.splitlines()
    assert columns.split("\t") == ["metric", "value", "95 % interval", "n", "without value"]
    assert anls.split("\t") == ["anls", "0.977", "0.970 to 0.983", "197", "3"]
    assert bleu.split("\t") == ["bleu", "–", "–", "0", "200"]
    wording(answers)
    wording(speed)


def test_the_cost_of_a_run_is_printed_or_why_it_is_unknown(
    capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    cost = {"cost_per_answer": 0.00036, "cost_total": 0.072, "cost_per_million_tokens": 3.2432, "cost_currency": "EUR"}
    print_scores(_shown_run(headline={**HEADLINE, **cost}))
    wording(capsys.readouterr().out.splitlines()[-1])
    print_scores(_shown_run(headline={**HEADLINE, "cost_unknown": "no prices"}))
    wording(capsys.readouterr().out.splitlines()[-1])
    print_runs([_shown_run(headline={**HEADLINE, **cost}), _shown_run(headline=HEADLINE, name="m · u")])
    columns, priced, unknown = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert (priced[-1], unknown[-1]) == ("0.00036 EUR", "unknown")
    assert columns[-1].startswith("cost")


@pytest.mark.parametrize(
    ("basis", "validity", "mark"),
    [
        ("hours", "invalid", "INVALID"),
        ("hours", "interrupted", "interrupted"),
        ("hours", "valid", None),
        ("tokens", "invalid", None),
    ],
)
def test_a_cost_by_the_hour_is_marked_if_the_speeds_are_invalid(
    capsys: pytest.CaptureFixture[str], basis: str, validity: str, mark: str | None
) -> None:
    cost = {"cost_per_answer": 0.5, "cost_total": 1.0, "cost_currency": "EUR", "cost_basis": basis}
    run = _shown_run(headline={**HEADLINE, **cost, "validity": validity})
    print_scores(run)
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith(f"cost in EUR ({mark}, " if mark else "cost in EUR: ")
    print_runs([run])
    _, row = capsys.readouterr().out.splitlines()
    assert row.split("\t")[-1] == (f"0.5 EUR {mark}" if mark else "0.5 EUR")


def test_a_run_without_a_report_prints_no_scores(capsys: pytest.CaptureFixture[str]) -> None:
    print_scores(_shown_run())
    assert capsys.readouterr().out == ""
    print_runs([_shown_run(headline=HEADLINE), _shown_run(state="FAILED", name="m · u")])
    columns, scored, failed = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert columns[:5] == ["run", "state", "ok", "anls", "bleu"]
    assert scored[:4] == ["m · t", "SUCCEEDED", "197/200", "0.977 [0.970, 0.983]"]
    assert failed[:4] == ["m · u", "FAILED", "197/200", "–"]


def test_a_list_has_target_task_score_and_the_reason_why_a_run_waits() -> None:
    columns, rows = run_table([_shown_run(headline=HEADLINE)])
    cells = dict(zip(columns, rows[0], strict=True))
    assert {name: cells[name] for name in ("id", "target", "task", "state", "done", "failed", "score")} == {
        "id": "00000000",
        "target": "m",
        "task": "t",
        "state": "succeeded",
        "done": "200/200",
        "failed": 3,
        "score": "anls 0.977 [0.970, 0.983]",
    }
    wait = {"code": "busy", "message": "no worker"}
    columns, rows = run_table([_shown_run(state="QUEUED", waits_for=wait), _shown_run()])
    assert (columns[-1], [row[-1] for row in rows]) == ("waiting", ["no worker", None])


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"is_paused": True}, "paused"),
        ({"is_paused": True, "is_cancelling": True}, "cancelling"),
        ({}, "queued"),
        ({"state": "FAILED", "is_paused": True}, "failed"),
    ],
)
def test_an_open_run_that_is_paused_or_cancelling_has_that_state(changes: dict[str, Any], state: str) -> None:
    assert state_of(_shown_run(**{"state": "QUEUED", **changes})) == state


def test_the_reason_why_a_run_waits_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines({RUN: "mine"})
    for reason in ("again in 19 s", "again in 18 s", "no worker"):
        lines.progress(Progress(run_id=RUN, stage="waiting", done=0, waits_for=reason))
    lines.progress(_progress(200))
    lines.progress(Progress(run_id=RUN, stage="waiting", done=0, waits_for="no worker"))
    printed = capsys.readouterr().err.splitlines()
    assert [printed[0], printed[1], printed[-1], len(printed)] == [
        "mine: waiting: again in 19 s", "mine: waiting: no worker", "mine: waiting: no worker", 4,
    ]  # fmt: skip
