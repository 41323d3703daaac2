"""A run becomes files as lm-evaluation-harness writes them: one row per answer and extractor, and the results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars
import pytest

from tests.shared.exchange.exported_run import EXAMPLE, exported, measure, prompt, result, run, samples, spec
from vlmhyperbench.domain.specs import Decoding, ModelTarget
from vlmhyperbench.exchange.as_lm_eval import model_folder, write_lm_eval
from vlmhyperbench.exchange.exported import ExportedRun, ExportedSample
from vlmhyperbench.exchange.staging import staged

DATE = "2026-01-02T03-05-05.250000"


def _write(folder: Path, found: Iterable[ExportedSample] | None = None, header: ExportedRun | None = None) -> Path:
    with staged(folder) as staging:
        write_lm_eval(header or exported(), found if found is not None else samples(), out=folder, staging=staging)
    return folder / "tiny"


def _rows(folder: Path) -> list[dict[str, Any]]:
    (path,) = folder.glob("samples_*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_files_are_named_as_the_harness_names_them(tmp_path: Path) -> None:
    names = {path.name for path in _write(tmp_path).iterdir()}
    assert names == {f"samples_document-qa_{DATE}.jsonl", f"results_{DATE}.json"}


def test_each_answer_has_a_row_per_extractor_with_its_scores(tmp_path: Path) -> None:
    rows = _rows(_write(tmp_path))
    assert [(row["doc_id"], row["filter"]) for row in rows][:3] == [
        (0, "text@1"),
        (0, "json_repaired@1"),
        (1, "text@1"),
    ]
    assert len(rows) == 8
    assert rows[0]["metrics"] == ["anls", "exact_match"]
    assert (rows[0]["anls"], rows[0]["exact_match"]) == (1.0, 1.0)
    assert (rows[2]["anls"], rows[3]["anls"]) == (1 / 3, 0.1)


def test_a_row_has_what_the_harness_writes(tmp_path: Path) -> None:
    row = _rows(_write(tmp_path))[0]
    assert row["doc"]["question"] == "What colour is box 0?"
    assert row["doc"]["references"] == ["blue", "azure"]
    assert row["target"] == "['blue', 'azure']"
    assert row["arguments"]["gen_args_0"]["arg_0"] == "What colour is box 0?"
    assert (row["resps"], row["filtered_resps"]) == ([["blue"]], ["blue"])
    assert row["target_hash"] == _sha256(row["target"])
    assert row["prompt_hash"] == _sha256("What colour is box 0?")
    assert row["doc_hash"] == _sha256(json.dumps(row["doc"], indent=2, ensure_ascii=False))


def test_one_reference_is_the_target_itself(tmp_path: Path) -> None:
    assert _rows(_write(tmp_path, samples([result(references=["blue"])])))[0]["target"] == "blue"


def test_a_metric_without_a_value_is_no_metric_of_the_row_and_never_zero(tmp_path: Path) -> None:
    row = _rows(_write(tmp_path))[4]
    assert (row["metrics"], "anls" in row, row["exact_match"]) == (["exact_match"], False, 0.0)
    assert row["vlmhyperbench"]["unscored"] == {"anls": "invalid_output: no number"}


def test_a_failed_request_has_no_response_and_says_why(tmp_path: Path) -> None:
    row = _rows(_write(tmp_path))[6]
    assert (row["resps"], row["filtered_resps"], row["metrics"]) == ([[]], [], [])
    assert row["vlmhyperbench"]["error"] == "timeout: no token in 300 s"


def test_what_an_extractor_did_not_find_is_no_response(tmp_path: Path) -> None:
    assert _rows(_write(tmp_path))[1]["filtered_resps"] == []


def test_the_results_are_the_reports_numbers(tmp_path: Path) -> None:
    folder = _write(tmp_path)
    found = json.loads((folder / f"results_{DATE}.json").read_text())
    assert found["results"]["document-qa"] == {
        "name": "document-qa",
        "alias": "document-qa",
        "sample_len": 4,
        "anls,text@1": 0.7,
        "anls_stderr,text@1": "N/A",
        "exact_match,text@1": 0.5,
        "exact_match_stderr,text@1": "N/A",
    }
    rows = _rows(folder)
    hashes = "".join(row["doc_hash"] + row["prompt_hash"] + row["target_hash"] for row in rows)
    assert found["task_hashes"] == {"document-qa": _sha256(hashes)}
    assert found["n-samples"]["document-qa"] == {"original": 4, "effective": 4}


def test_the_decoding_is_in_the_words_of_the_harness(tmp_path: Path) -> None:
    decoding = Decoding(temperature=0.5, top_p=0.9, max_tokens=7, stop=("\n",))
    header = exported(run(pinned=spec(decoding=decoding)))
    generation = _rows(_write(tmp_path, header=header))[0]["arguments"]["gen_args_0"]["arg_1"]
    assert generation == {"until": ["\n"], "max_gen_toks": 7, "do_sample": True, "temperature": 0.5, "top_p": 0.9}


def test_a_system_prompt_makes_messages_of_the_prompt(tmp_path: Path) -> None:
    row = _rows(_write(tmp_path, samples([result(prompt=prompt("Be brief."))])))[0]
    assert json.loads(row["arguments"]["gen_args_0"]["arg_0"])[0] == {"role": "system", "content": "Be brief."}


def test_examples_are_turns_before_the_question(tmp_path: Path) -> None:
    row = _rows(_write(tmp_path, samples([result(prompt=prompt(examples=[EXAMPLE]))])))[0]
    messages = json.loads(row["arguments"]["gen_args_0"]["arg_0"])
    assert [(message["role"], message["content"]) for message in messages] == [
        ("user", "Q: box 1?"),
        ("assistant", "red"),
        ("user", "What colour is box 0?"),
    ]


def test_neither_metric_nor_metadata_can_hide_a_field_of_the_row(tmp_path: Path) -> None:
    odd = result(group={"question": "mine"}, measures=[measure("target", 0.25)])
    row = _rows(_write(tmp_path, samples([odd])))[0]
    assert row["doc"]["question"] == "What colour is box 0?"
    assert (row["metrics"], row["target_metric"], row["target"]) == (["target_metric"], 0.25, "['blue', 'azure']")


@pytest.mark.parametrize("name", ["../../up", "/abs", "..", "a\x00b", "", "."])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    found = model_folder(name)
    assert found
    assert not found.startswith(".")
    assert not {"/", "\x00"} & set(found)
    header = exported(run(pinned=spec(task=name or "x", target=_target(name or "x"))))
    _write(tmp_path / "in", header=header)
    assert {path.name for path in tmp_path.iterdir()} == {"in"}
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 2


def _target(name: str) -> ModelTarget:
    return ModelTarget(model=name, version="1.0.0", backend="simulated", backend_class="simulated")


def test_readers_of_json_lines_take_the_file_with_hostile_text(tmp_path: Path) -> None:
    found = samples([result(0, "=cmd\x00\ud800\u2028;\n"), result(1, measures=[measure("anls", 0.1 + 0.2)])])
    (path,) = _write(tmp_path, found).glob("samples_*.jsonl")
    frame = polars.read_ndjson(path, infer_schema_length=None)
    assert frame["resps"][0].to_list() == [["=cmd\x00\N{REPLACEMENT CHARACTER}\u2028;\n"]]
    assert frame["anls"].to_list() == [1.0, None, 0.1 + 0.2, None]


def test_equal_runs_give_equal_bytes(tmp_path: Path) -> None:
    first, second = _write(tmp_path / "a"), _write(tmp_path / "b")
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes()
