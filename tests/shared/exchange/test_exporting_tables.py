"""A run becomes tables: Parquet and JSON Lines have everything, CSV a row per answer, metric and extractor."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared.exchange.exported_run import RUN, exported, measure, result, samples
from vlmhyperbench.domain.valid_text import valid_unicode
from vlmhyperbench.exchange import as_tables
from vlmhyperbench.exchange.as_jsonl import write_jsonl
from vlmhyperbench.exchange.as_tables import RUN_KEY, write_csv, write_parquet
from vlmhyperbench.exchange.exported import ExportedSample
from vlmhyperbench.exchange.staging import staged

Write = Callable[..., None]
FLOATS = [1 / 3, 0.1 + 0.2, 5e-324, 1.7976931348623157e308, -0.0, 1e22]
HOSTILE = "=cmd|' /C calc'!A0\x00\ud800;\"\r\n\u202e"


def _write(write: Write, folder: Path, found: Iterable[ExportedSample] | None = None) -> Path:
    path = folder / "run"
    with staged(path) as staging:
        write(exported(), found if found is not None else samples(), out=path, staging=staging)
    return path


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def _csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=";"))


def _scored() -> list[ExportedSample]:
    return samples([result(i, measures=[measure("anls", value)]) for i, value in enumerate(FLOATS)])


def test_parquet_has_one_typed_row_per_request(tmp_path: Path) -> None:
    frame = polars.read_parquet(_write(write_parquet, tmp_path))
    assert frame["key"].to_list() == [f"page/{i}" for i in range(4)]
    assert frame.schema["latency_ms"] == polars.Float64
    assert frame.schema["prompt_tokens"] == polars.Int64
    assert frame["latency_ms"].to_list() == [250.0, 250.0, 250.0, None]
    assert frame["text"].to_list() == ["blue", '{"a": 1}', "", None]
    assert frame["references"][0].to_list() == ["blue", "azure"]
    assert json.loads(frame["metadata"][0]) == {"doc_class": "form"}
    assert frame["measures"][2].to_list() == [
        {
            "key": "anls",
            "metric": "anls",
            "profile": "paper",
            "version": "1.0.0",
            "extractor": "text@1",
            "field": None,
            "value": None,
            "outcome": "unscored",
            "reason": "invalid_output: no number",
            "is_invalid": True,
            "evaluation_id": "e1",
        },
        {
            "key": "exact_match",
            "metric": "exact_match",
            "profile": "v1",
            "version": "2.0.0",
            "extractor": "text@1",
            "field": None,
            "value": 0.0,
            "outcome": "scored",
            "reason": None,
            "is_invalid": None,
            "evaluation_id": "e2",
        },
    ]


def test_the_run_stands_in_the_parquet_files_metadata(tmp_path: Path) -> None:
    header = json.loads(polars.read_parquet_metadata(_write(write_parquet, tmp_path))[RUN_KEY])
    assert (header["id"], header["model"], header["headline"][0]["value"]) == (str(RUN), "tiny", 0.7)
    assert header["spec"]["dataset"]["name"] == "documents"


def test_jsonl_has_a_header_and_the_neutral_form_of_every_answer(tmp_path: Path) -> None:
    header, first, *_, last = _lines(_write(write_jsonl, tmp_path))
    assert (header["format"], header["model"], header["task"]) == ("vlmhyperbench-jsonl", "tiny", "document-qa")
    assert header["decoding"]["max_tokens"] == 256
    assert header["run"]["headline"][0]["lower"] == 0.35
    assert first["reported"] == {"anls": 1.0, "exact_match": 1.0}
    assert (first["key"], first["repeat"], first["text"], first["error"]) == ("page/0", 0, "blue", None)
    assert (last["text"], last["error"], last["reported"]) == (None, "timeout: no token in 300 s", {})


def test_csv_has_a_row_per_answer_metric_and_extractor(tmp_path: Path) -> None:
    rows = _csv(_write(write_csv, tmp_path))
    assert [(row["id"], row["metric"], row["extractor"], row["value"]) for row in rows] == [
        ("page/0", "anls", "text@1", "1.0"),
        ("page/0", "exact_match", "text@1", "1.0"),
        ("page/1", "anls", "text@1", "0.3333333333333333"),
        ("page/1", "anls", "json_repaired@1", "0.1"),
        ("page/2", "anls", "text@1", ""),
        ("page/2", "exact_match", "text@1", "0.0"),
        ("page/3", "anls", "text@1", ""),
    ]
    assert rows[0]["reference"] == '["blue", "azure"]'
    assert rows[4]["reason"] == "invalid_output: no number"
    assert rows[6]["error"] == "timeout: no token in 300 s"


def test_an_answer_that_nothing_was_measured_of_has_a_row_in_csv(tmp_path: Path) -> None:
    (row,) = _csv(_write(write_csv, tmp_path, samples([result(measures=[])])))
    assert (row["id"], row["metric"], row["value"]) == ("page/0", "", "")


def test_scores_are_the_same_numbers_after_reading_to_the_last_bit(tmp_path: Path) -> None:
    frame = polars.read_parquet(_write(write_parquet, tmp_path, _scored()))
    assert [measures[0]["value"] for measures in frame["measures"].to_list()] == FLOATS
    lines = _lines(_write(write_jsonl, tmp_path, _scored()))[1:]
    assert [line["reported"]["anls"] for line in lines] == FLOATS
    rows = _csv(_write(write_csv, tmp_path, _scored()))
    assert [float(row["value"]) for row in rows] == FLOATS


def test_no_cell_of_csv_is_a_formula(tmp_path: Path) -> None:
    odd = result(
        0,
        HOSTILE,
        key="=1+1",
        question="@SUM(A1)",
        references=["+1"],
        group={"doc_class": "-2"},
        finish_reason="\t=1",
        measures=[measure("anls", None, reason="=2", field="=3")],
    )
    (row,) = _csv(_write(write_csv, tmp_path, samples([odd])))
    cells = {name: text for name, text in row.items() if text}
    assert [name for name, text in cells.items() if text[0] in "=+-@\t\r"] == []
    assert (row["id"], row["doc_class"], row["reference"], row["field_name"]) == ("'=1+1", "'-2", "'+1", "'=3")
    assert "\x00" not in row["model_answer"]


def test_a_negative_score_in_csv_stays_a_number(tmp_path: Path) -> None:
    (row,) = _csv(_write(write_csv, tmp_path, samples([result(measures=[measure("anls", -0.5)])])))
    assert row["value"] == "-0.5"


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_every_answer_comes_back_from_parquet_and_jsonl(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("text")
    found = samples([result(0, text)])
    assert polars.read_parquet(_write(write_parquet, folder, found))["text"].to_list() == [valid_unicode(text)]
    assert _lines(_write(write_jsonl, folder, found))[1]["text"] == valid_unicode(text)


@pytest.mark.parametrize("write", [write_parquet, write_jsonl, write_csv])
def test_equal_runs_give_equal_bytes_and_one_file(tmp_path: Path, write: Write) -> None:
    first = _write(write, tmp_path).read_bytes()
    assert _write(write, tmp_path).read_bytes() == first
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("write", [write_parquet, write_csv])
def test_batches_join_without_a_seam(tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_tables, "BATCH_ROWS", 2)
    found = samples([result(i, f"answer {i}", measures=[measure()]) for i in range(5)])
    path = _write(write, tmp_path, found)
    texts = (
        polars.read_parquet(path)["text"].to_list()
        if write is write_parquet
        else [row["model_answer"] for row in _csv(path)]
    )
    assert texts == [f"answer {i}" for i in range(5)]
