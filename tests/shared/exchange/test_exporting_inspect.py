"""A run becomes a log that inspect_ai opens.

`data/inspect_log.schema.json` has the names and types of inspect_ai's own models (its origin stands in it); the package
itself reads the log where it is installed, here or in the Python that VLMHB_INSPECT_PYTHON names.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.shared.exchange.exported_run import (
    EXAMPLE,
    IMAGE,
    RUN,
    SHOWN,
    exported,
    failed,
    measure,
    prompt,
    result,
    run,
    samples,
)
from tests.shared.reports.builders import thumbnail
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.as_inspect import write_inspect
from vlmhyperbench.exchange.exported import ExportedRun, ExportedSample
from vlmhyperbench.exchange.pictures import Pictures, data_url
from vlmhyperbench.exchange.reading import read
from vlmhyperbench.exchange.staging import staged

SCHEMA = json.loads((Path(__file__).parent / "data" / "inspect_log.schema.json").read_text())
_READ = """
import json, math, sys
from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries
path = sys.argv[1]
log = read_eval_log(path)
summaries = read_eval_log_sample_summaries(path)
number = lambda value: None if isinstance(value, float) and math.isnan(value) else value
json.dump({
    "listed": len(list_eval_logs(str(__import__("pathlib").Path(path).parent))),
    "status": log.status,
    "samples": {f"{s.id}#{s.epoch}": {n: number(x.value) for n, x in s.scores.items()} for s in log.samples},
    "reasons": {f"{s.id}#{s.epoch}": {n: x.reason for n, x in s.scores.items()} for s in log.samples},
    "texts": {f"{s.id}#{s.epoch}": s.output.completion for s in log.samples},
    "images": {
        f"{s.id}#{s.epoch}": [p.image for m in s.input if m.role == "user" for p in m.content if p.type == "image"]
        for s in read_eval_log(path, resolve_attachments=True).samples if not isinstance(s.input, str)
    },
    "again": [read_eval_log_sample(path, s.id, s.epoch).id for s in log.samples],
    "summaries": {f"{s.id}#{s.epoch}": {n: number(x.value) for n, x in s.scores.items()} for s in summaries},
    "results": {s.name: s.metrics["value"].value for s in log.results.scores},
}, sys.stdout)
"""


def _write(
    folder: Path,
    found: Iterable[ExportedSample] | None = None,
    header: ExportedRun | None = None,
    pictures: Pictures | None = None,
) -> Path:
    path = folder / "log.eval"
    taken = found if found is not None else samples()
    with staged(path) as staging:
        write_inspect(header or exported(), taken, out=path, staging=staging, pictures=pictures)
    return path


def _members(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: json.loads(archive.read(name)) for name in archive.namelist()}


def _strict(node: Any) -> Any:
    """Refuse names that inspect_ai does not know: it would ignore them."""
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    own = {name: _strict(item) for name, item in node.items()}
    return {**own, "additionalProperties": False} if "properties" in own else own


def _check(value: Any, model: str) -> None:
    schema = {**_strict(SCHEMA), "$ref": f"#/$defs/{model}"}
    Draft202012Validator(schema).validate(value)


def test_every_file_of_the_log_has_the_form_that_inspect_reads(tmp_path: Path) -> None:
    members = _members(_write(tmp_path))
    _check(members["header.json"], "EvalLog")
    _check(members["_journal/start.json"], "EvalLog")
    for summary in members["summaries.json"]:
        _check(summary, "EvalSampleSummary")
    names = [name for name in members if name.startswith("samples/")]
    assert names == [f"samples/page/{i}_epoch_1.json" for i in range(4)]
    for name in names:
        _check(members[name], "EvalSample")


def test_the_schema_refuses_a_log_of_another_form(tmp_path: Path) -> None:
    header = _members(_write(tmp_path))["header.json"]
    for wrong in ({**header, "status": "done"}, {**header, "odd_name": 1}):
        with pytest.raises(Exception, match=r"done|odd_name"):
            _check(wrong, "EvalLog")


def test_scores_are_the_same_numbers_and_what_has_none_is_nan_with_a_reason(tmp_path: Path) -> None:
    members = _members(_write(tmp_path))
    scores = [members[f"samples/page/{i}_epoch_1.json"]["scores"] for i in range(4)]
    assert {name: score["value"] for name, score in scores[0].items()} == {"anls": 1.0, "exact_match": 1.0}
    assert {name: score["value"] for name, score in scores[1].items()} == {
        "anls": 1 / 3,
        "anls (json_repaired@1)": 0.1,
    }
    assert math.isnan(scores[2]["anls"]["value"])
    assert scores[2]["anls"]["reason"] == "invalid_output: no number"
    assert scores[2]["exact_match"]["value"] == 0.0


def test_the_scores_of_the_report_stand_in_the_header_with_what_is_missing(tmp_path: Path) -> None:
    anls, match = _members(_write(tmp_path))["header.json"]["results"]["scores"]
    assert {name: metric["value"] for name, metric in anls["metrics"].items()} == {
        "value": 0.7,
        "ci_low": 0.6,
        "ci_high": 0.8,
    }
    assert (anls["scored_samples"], anls["unscored_samples"], anls["metadata"]["lower"]) == (2, 1, 0.35)
    assert [metric["value"] for metric in match["metrics"].values()] == [0.5]


def test_a_failed_request_has_an_error_and_no_answer(tmp_path: Path) -> None:
    sample = _members(_write(tmp_path))["samples/page/3_epoch_1.json"]
    assert sample["error"]["message"] == "timeout: no token in 300 s"
    assert sample["output"]["choices"] == []
    assert [message["role"] for message in sample["messages"]] == ["user"]


def test_unknown_tokens_are_left_out_and_never_zero(tmp_path: Path) -> None:
    half = [result(0), result(1, completion_tokens=None)]
    members = _members(_write(tmp_path, samples(half)))
    assert members["samples/page/0_epoch_1.json"]["model_usage"]["tiny"]["total_tokens"] == 22
    assert members["samples/page/1_epoch_1.json"]["model_usage"] == {}
    assert members["header.json"]["stats"]["model_usage"] == {}


def test_reasoning_and_the_system_prompt_are_messages_of_their_own(tmp_path: Path) -> None:
    found = samples([result(0, reasoning="It is not red.", prompt=prompt("Be brief."))])
    sample = _members(_write(tmp_path, found))["samples/page/0_epoch_1.json"]
    _check(sample, "EvalSample")
    assert [message["role"] for message in sample["messages"]] == ["system", "user", "assistant"]
    assert [part["type"] for part in sample["messages"][2]["content"]] == ["reasoning", "text"]


def test_examples_are_turns_of_the_messages_and_no_part_of_the_input(tmp_path: Path) -> None:
    found = samples([result(0, prompt=prompt("Be brief.", examples=[EXAMPLE]))])
    path = tmp_path / "log.eval"
    with staged(path) as staging:
        pictures = Pictures(lambda sha256: b"\x89PNG" + sha256.encode())
        write_inspect(exported(), found, out=path, staging=staging, pictures=pictures)
    sample = _members(path)["samples/page/0_epoch_1.json"]
    _check(sample, "EvalSample")
    assert [message["role"] for message in sample["messages"]] == ["system", "user", "assistant", "user", "assistant"]
    assert sample["messages"][1]["content"][0]["image"] == f"attachment://{SHOWN}"
    assert sample["messages"][2]["content"] == "red"
    assert [message["role"] for message in sample["input"]] == ["system", "user"]
    assert set(sample["attachments"]) == {SHOWN, IMAGE}
    (answer,) = read(path).answers
    assert (answer.question, len(answer.image_urls)) == ("What colour is box 0?", 1)


def test_repeats_are_epochs_and_equal_keys_never_share_a_file(tmp_path: Path) -> None:
    found = samples([result(0), result(4, key="page/0", repeat=1), result(5, key="page/0", repeat=1)])
    names = [name for name in _members(_write(tmp_path, found)) if name.startswith("samples/")]
    assert names == [f"samples/page/0_epoch_{epoch}.json" for epoch in (1, 2, 3)]


@pytest.mark.parametrize("key", ["../../etc/passwd", "/abs", "a\x00b", "a\\b", "x" * 400, "a//b", "\ud800", "\x1b"])
def test_a_hostile_key_names_no_file_outside_and_stays_in_the_metadata(tmp_path: Path, key: str) -> None:
    path = _write(tmp_path, samples([result(0, key=key)]))
    with zipfile.ZipFile(path) as archive:
        (name,) = (name for name in archive.namelist() if name.startswith("samples/"))
        sample = json.loads(archive.read(name))
    assert ".." not in name
    assert "//" not in name
    assert len(name) < 200
    assert name == f"samples/{sample['id']}_epoch_1.json"
    assert sample["metadata"]["vlmhyperbench"]["key"] == _shown(key)


def _shown(key: str) -> str:
    return key.replace("\ud800", "\N{REPLACEMENT CHARACTER}").replace("\x00", "\N{REPLACEMENT CHARACTER}")


@given(st.lists(st.text(max_size=6), min_size=1, max_size=6))
def test_different_keys_are_different_files(tmp_path_factory: pytest.TempPathFactory, keys: list[str]) -> None:
    path = _write(tmp_path_factory.mktemp("keys"), samples([result(i, key=key) for i, key in enumerate(keys)]))
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.startswith("samples/")]
    assert len(set(names)) == len(keys)


def test_metadata_of_the_sample_cannot_hide_ours(tmp_path: Path) -> None:
    found = samples([result(0, group={"vlmhyperbench": "mine", "status": "mine"})])
    metadata = _members(_write(tmp_path, found))["samples/page/0_epoch_1.json"]["metadata"]
    assert metadata["status"] == "mine"
    assert metadata["vlmhyperbench"]["status"] == "ok"


@pytest.mark.parametrize(
    ("state", "status"),
    [("SUCCEEDED", "success"), ("PARTIAL", "success"), ("FAILED", "error"), ("CANCELLED", "cancelled")],
)
def test_a_run_ends_in_the_log_as_it_ended(tmp_path: Path, state: str, status: str) -> None:
    header = _members(_write(tmp_path, header=exported(run(state=type(run().state)(state), reason="why"))))
    assert header["header.json"]["status"] == status
    assert header["header.json"]["eval"]["metadata"]["state"] == state
    _check(header["header.json"], "EvalLog")


def test_long_texts_are_cut_in_the_summaries_only(tmp_path: Path) -> None:
    members = _members(_write(tmp_path, samples([result(0, question="long " * 1000)])))
    assert len(members["summaries.json"][0]["input"]) < 1100
    assert len(members["samples/page/0_epoch_1.json"]["input"]) == 5000


def test_equal_runs_give_equal_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    assert _write(first).read_bytes() == _write(second).read_bytes()


def test_a_name_that_inspect_would_not_open_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.zip"
    with pytest.raises(InvalidInput, match=r"ends in \.eval"), staged(path) as staging:
        write_inspect(exported(), samples(), out=path, staging=staging)
    assert list(tmp_path.iterdir()) == []


def _python_with_inspect() -> str | None:
    if importlib.util.find_spec("inspect_ai") is not None:
        return sys.executable
    return os.environ.get("VLMHB_INSPECT_PYTHON")


@pytest.mark.skipif(_python_with_inspect() is None, reason="inspect_ai is not installed")
def test_inspect_itself_reads_every_score_as_we_wrote_it(tmp_path: Path) -> None:
    hostile = [
        result(4, "=cmd|' /C calc'!A0\x00\ud800", key="a\x00/../b", measures=[measure("anls", 1e-300)]),
        result(5, key="page/0", repeat=1, measures=[measure("anls", 0.1 + 0.2)]),
        failed(6),
        result(7, key="seen", images=[IMAGE]),
    ]
    wanted = samples([*_plain(), *hostile])
    path = _write(tmp_path, wanted, pictures=Pictures(lambda sha256: thumbnail().data if sha256 == IMAGE else b""))
    done = subprocess.run(
        [str(_python_with_inspect()), "-c", _READ, str(path)], check=True, capture_output=True, text=True, timeout=120
    )
    found = json.loads(done.stdout)
    assert (found["listed"], found["status"], found["results"]) == (1, "success", {"anls": 0.7, "exact_match": 0.5})
    first = exported().extractors[0]
    expected = [
        {(m.key if m.extractor == first else f"{m.key} ({m.extractor})"): m.value for m in answer.measures}
        for answer in wanted
    ]
    assert sorted(map(str, found["samples"].values())) == sorted(map(str, expected))
    assert found["summaries"] == found["samples"]
    assert sorted(found["texts"].values()) == sorted(answer.text or "" for answer in wanted)
    shown = [images for images in found["images"].values() if images]
    assert shown == [[data_url(thumbnail().data)]] * sum(bool(sample.images) for sample in wanted)
    assert found["images"]["seen#1"] == shown[0]
    assert len(found["again"]) == len(wanted)
    assert found["reasons"]["page/2#1"] == {"anls": "invalid_output: no number", "exact_match": None}
    assert found["samples"]["page/0#2"] == {"anls": 0.1 + 0.2}


def _plain() -> list[Any]:
    return [result(0), result(1), result(2, "", measures=[measure("anls", None), measure("exact_match", 0.0)])]


def test_the_log_says_which_run_it_is(tmp_path: Path) -> None:
    header = _members(_write(tmp_path))["header.json"]
    assert header["eval"]["eval_id"] == str(RUN)
    assert header["eval"]["dataset"] == {"name": "documents", "samples": 4}
    assert header["results"]["completed_samples"] == 3
