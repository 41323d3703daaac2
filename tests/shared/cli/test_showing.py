from __future__ import annotations

import json
from uuid import UUID, uuid4

import pytest

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.headline import print_table
from vlmhyperbench.cli.output import complain, emit
from vlmhyperbench.cli.progress import Lines, describe
from vlmhyperbench.errors import Conflict, Denied, Fenced, InvalidInput, NotFound, PluginFailure, Unavailable
from vlmhyperbench.registry.errors import RegistryError, RegistryErrors
from vlmhyperbench.wire.live import Progress

RUN = UUID(int=1)


def _progress(done: int, **fields: float) -> Progress:
    return Progress(run_id=RUN, stage="inference", done=done, total=200, **fields)  # type: ignore[arg-type]


def test_progress_is_one_line_with_rate_and_time_left() -> None:
    assert describe(_progress(50, rate_per_s=12.34, eta_s=65.2)) == "inference 50/200 (25%) 12.3/s ETA 1:05"
    speeds = {"in_flight": 4, "output_tokens_per_s": 81.6, "ttft_p50_ms": 20.4, "ttft_p99_ms": 31.0}
    assert describe(_progress(50, speeds=speeds)) == "inference 50/200 (25%) 4 in flight 82 tokens/s TTFT 20/31 ms"
    assert describe(_progress(50, failed=2)) == "inference 50/200 (25%) 2 failed"
    assert describe(Progress(run_id=RUN, stage="index", done=3)) == "index 3"


def test_lines_are_printed_at_changes_and_at_the_end_not_at_every_message(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines({RUN: "mine"})
    for done in range(200):
        lines.progress(_progress(done))
    for _ in range(3):
        lines.progress(_progress(200))
        lines.state(RUN, "RUNNING")
    printed = capsys.readouterr().err.splitlines()
    assert printed == ["mine: inference 0/200 (0%)", "mine: inference 200/200 (100%)", "mine: running"]


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


def test_speeds_that_are_no_measurement_are_said_to_be_void_in_front_of_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = {"name": "a", "state": "SUCCEEDED", "requested": 1, "ok": 1, "latency_p50_ms": 12.6, "validity": "valid"}
    print_table({"rows": [row, {**row, "name": "b", "validity": "invalid"}]})
    columns, first, second = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert columns[3:] == ["speeds", "p50 ms"]
    assert (first[3:], second[3:]) == (["valid", "13"], ["INVALID", "13"])


def test_whose_memory_it_is_stands_beside_it_where_runs_differ_in_that(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_a_headline_that_is_none_prints_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_every_error_is_printed_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    errors = [RegistryError(file="a.yaml", line=2, field="task", message="m.", cure="c."), RegistryError(message="n.")]
    complain(RegistryErrors(errors), as_json=True)
    captured = capsys.readouterr()
    assert captured.err.splitlines()[0] == "error: 2 things are wrong:"
    assert "  a.yaml:2: task: m. c." in captured.err.splitlines()
    assert len(json.loads(captured.out)["data"]["errors"]) == 2


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
    assert exits.code_of(error) == code  # type: ignore[arg-type]
