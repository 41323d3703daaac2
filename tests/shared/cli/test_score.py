"""`score` prints a value or a reason for each row of a file, and the value of all rows with its counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.wording import Wording
from vlmhyperbench.cli import score as command
from vlmhyperbench.cli.main import main


def _file(tmp_path: Path, *rows: object) -> str:
    path = tmp_path / "answers.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return str(path)


def _row(key: object, prediction: object, *targets: object, **further: object) -> dict[str, object]:
    return {"id": key, "prediction": prediction, "targets": list(targets), **further}


def _score(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["score", *arguments, "--json"]) == 0
    envelope = json.loads(capsys.readouterr().out)
    assert (envelope["schema"], envelope["kind"], envelope["next"]) == ("vlmhb/v1", "score", None)
    data: dict[str, Any] = envelope["data"]
    return data


def test_every_row_has_a_value_or_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = _file(
        tmp_path,
        _row(1, "12.50 EUR", "12,50 EUR"),
        _row("b", None, "x"),
        "",
        _row("c", "\ud800x", "x", "y"),
        _row("d", {"a": 1.5}, {"a": 1.5}),
        _row("e", "x"),
        {"id": "f", "prediction": "x", "targets": "x"},
        {"id": "g", "prediction": "null", "targets": None},
        '{"id": "h", "prediction": 12.50, "targets": ["12.50"]}',
    )
    data = _score(capsys, file, "--metric", "anls@inclusive")
    assert data["scores"] == [
        {"id": 1, "value": 1 - 1 / 9, "error": None},
        {"id": "b", "value": None, "error": "no_prediction"},
        {"id": "c", "value": 0.5, "error": None},
        {"id": "d", "value": 1.0, "error": None},
        {"id": "e", "value": None, "error": "no_reference"},
        {"id": "f", "value": 1.0, "error": None},
        {"id": "g", "value": None, "error": "no_reference"},
        {"id": "h", "value": 1.0, "error": None},
    ]
    aggregate = data["aggregate"]
    assert aggregate["value"] == aggregate["mean"] == pytest.approx((1 - 1 / 9 + 3.5) / 5)
    assert (aggregate["n"], aggregate["n_scored"], aggregate["n_unscored"]) == (8, 5, 3)
    assert data["metric"]["profile"] == "inclusive"


def test_a_pooled_value_differs_from_the_mean_and_does_not_depend_on_batches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _file(tmp_path, _row(1, "ab", "abcd"), _row(2, "x", "x"), _row(3, "yy", "y"))
    whole = _score(capsys, file, "--metric", "cer")
    assert whole["aggregate"]["value"] == pytest.approx(3 / 6)
    assert whole["aggregate"]["mean"] == pytest.approx((0.5 + 0 + 1) / 3)
    monkeypatch.setattr(command, "BATCH_ROWS", 2)
    assert _score(capsys, file, "--metric", "cer") == whole
    assert main(["score", file, "--metric", "cer"]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith(": 0.5000")


def test_parameters_are_json_text_or_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = _file(tmp_path, _row(1, "Two!", "2"))
    params = ["--param", "strip_punct=true", "--param", "words_to_digits=true"]
    assert _score(capsys, file, "--metric", "exact_match", *params)["aggregate"]["value"] == 1.0
    (tmp_path / "labels.json").write_text('["yes", "no"]')
    file = _file(tmp_path, _row(1, "yes", "yes"), _row(2, "perhaps", "no"))
    data = _score(capsys, file, "--metric", "accuracy", "--param", f"labels=@{tmp_path}/labels.json")
    assert data["aggregate"]["value"] == 0.5


def test_a_file_without_any_score_has_no_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    assert _score(capsys, _file(tmp_path, _row(1, None, "x")), "--metric", "wer")["aggregate"]["value"] is None
    assert main(["score", _file(tmp_path, _row(1, None, "x")), "--metric", "wer"]) == 0
    wording("\n".join(capsys.readouterr().out.splitlines()[1:]))


def test_a_file_without_rows_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], wording: Wording) -> None:
    assert main(["score", _file(tmp_path), "--metric", "wer"]) == 2
    wording(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("{", ""),
        ("[1]", ""),
        ('{"id": 1, "prediction": "x"}', "'targets'"),
        ('{"id": 7, "prediction": "x", "targets": []}', "line 1"),
        ('{"id": true, "prediction": "x", "targets": []}', "id"),
        ('{"id": "\\ud800", "prediction": "x", "targets": []}', "surrogate"),
        ('{"id": 1, "prediction": NaN, "targets": []}', ""),
        ('{"id": 1, "id": 2, "prediction": "x", "targets": []}', "'id'"),
        ('{"id": 1, "prediction": "x", "targets": [], "metadata": 3}', "metadata"),
    ],
    ids=[
        "half a line", "list", "missing field", "repeated id", "boolean id", "surrogate", "NaN", "repeated key",
        "metadata",
    ],
)  # fmt: skip
def test_the_error_of_a_broken_line_names_it_and_nothing_is_scored(
    line: str, field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    assert main(["score", _file(tmp_path, _row(7, "x", "x"), line), "--metric", "cer"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "answers.jsonl:2" in printed.err
    assert field in printed.err
    wording(printed.err)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--metric", "anlz"], "anls?"),
        (["--metric", "anls@strange"], "paper, inclusive, docvqa"),
        (["--metric", "anls@paper", "--param", "profile=inclusive"], "--metric NAME@PROFILE"),
        (["--metric", "anls", "--param", "labels"], "--param NAME=VALUE"),
        (["--metric", "anls", "--param", "labels=1"], "labels"),
        (["--metric", "accuracy", "--param", "labels=@/no/such/file"], "/no/such/file"),
    ],
)
def test_a_wrong_metric_or_parameter_is_named(
    arguments: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["score", _file(tmp_path, _row(1, "x", "x")), *arguments]) == 2
    assert complaint in capsys.readouterr().err


def test_a_file_that_is_not_text_or_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").write_bytes(b"\xc3\x28")
    for name, complaint in (("x", "UTF-8"), ("y", "No such file"), ("", "Is a directory")):
        assert main(["score", str(tmp_path / name), "--metric", "cer"]) == 2
        error = capsys.readouterr().err
        assert str(tmp_path / name) in error
        assert complaint in error
