"""`score` gives every row of a file its number or its reason, and the group its value with what it rests on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vlmhyperbench.cli import score as command
from vlmhyperbench.cli.main import main


def _file(tmp_path: Path, *rows: object) -> str:
    path = tmp_path / "answers.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return str(path)


def _row(key: object, prediction: object, *targets: object, **beside: object) -> dict[str, object]:
    return {"id": key, "prediction": prediction, "targets": list(targets), **beside}


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


def test_a_pooled_value_is_no_mean_and_batches_do_not_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _file(tmp_path, _row(1, "ab", "abcd"), _row(2, "x", "x"), _row(3, "yy", "y"))
    whole = _score(capsys, file, "--metric", "cer")
    assert whole["aggregate"]["value"] == pytest.approx(3 / 6)
    assert whole["aggregate"]["mean"] == pytest.approx((0.5 + 0 + 1) / 3)
    monkeypatch.setattr(command, "BATCH_ROWS", 2)
    assert _score(capsys, file, "--metric", "cer") == whole
    assert main(["score", file, "--metric", "cer"]) == 0
    assert "mean of the samples: 0.5000" in capsys.readouterr().out


def test_parameters_are_json_text_or_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = _file(tmp_path, _row(1, "Two!", "2"))
    params = ["--param", "strip_punct=true", "--param", "words_to_digits=true"]
    assert _score(capsys, file, "--metric", "exact_match", *params)["aggregate"]["value"] == 1.0
    (tmp_path / "labels.json").write_text('["yes", "no"]')
    file = _file(tmp_path, _row(1, "yes", "yes"), _row(2, "perhaps", "no"))
    data = _score(capsys, file, "--metric", "accuracy", "--param", f"labels=@{tmp_path}/labels.json")
    assert data["aggregate"]["value"] == 0.5


def test_a_file_in_which_nothing_can_be_scored_has_no_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _score(capsys, _file(tmp_path, _row(1, None, "x")), "--metric", "wer")["aggregate"]["value"] is None
    assert main(["score", _file(tmp_path, _row(1, None, "x")), "--metric", "wer"]) == 0
    assert "0 of 1 rows are scored" in capsys.readouterr().out


def test_a_file_without_rows_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", _file(tmp_path), "--metric", "wer"]) == 2
    assert "answers.jsonl has no rows." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", r":2 is not JSON"),
        ("[1]", r":2 is not a JSON object"),
        ('{"id": 1, "prediction": "x"}', r":2: the field 'targets' is missing"),
        ('{"id": 7, "prediction": "x", "targets": []}', r":2: the id 7 is that of line 1"),
        ('{"id": true, "prediction": "x", "targets": []}', r":2: the id is neither"),
        ('{"id": "\\ud800", "prediction": "x", "targets": []}', r":2: the id holds a lone surrogate"),
        ('{"id": 1, "prediction": NaN, "targets": []}', r":2 is not JSON"),
        ('{"id": 1, "id": 2, "prediction": "x", "targets": []}', r":2 is not JSON: the key 'id' appears twice"),
        ('{"id": 1, "prediction": "x", "targets": [], "metadata": 3}', r":2: the metadata is no object"),
    ],
)
def test_a_broken_line_is_named_and_nothing_is_scored(
    line: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["score", _file(tmp_path, _row(7, "x", "x"), line), "--metric", "cer"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "answers.jsonl" + complaint.replace("\\", "") in said.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--metric", "anlz"], "Did you mean anls?"),
        (["--metric", "anls@strange"], "Known profiles: paper, inclusive, docvqa."),
        (["--metric", "anls@paper", "--param", "profile=inclusive"], "Two profiles are given."),
        (["--metric", "anls", "--param", "labels"], "Write --param NAME=VALUE."),
        (["--metric", "anls", "--param", "labels=1"], "refuses its params"),
        (["--metric", "accuracy", "--param", "labels=@/no/such/file"], "cannot be read"),
    ],
)
def test_a_wrong_metric_or_parameter_is_named(
    arguments: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["score", _file(tmp_path, _row(1, "x", "x")), *arguments]) == 2
    assert complaint in capsys.readouterr().err


def test_a_file_that_is_no_text_or_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").write_bytes(b"\xc3\x28")
    for name, complaint in (("x", "is not UTF-8"), ("y", "cannot be read"), ("", "cannot be read")):
        assert main(["score", str(tmp_path / name), "--metric", "cer"]) == 2
        assert complaint in capsys.readouterr().err
