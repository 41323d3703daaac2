"""Files are known by what is in them, and every answer is handed on fit to be stored."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.shared.exchange.reading import DATA, answers, taken, write, write_lines
from tests.support.wording import Wording
from vlmhyperbench.errors import InvalidInput, NotFound, Unavailable
from vlmhyperbench.exchange import lines
from vlmhyperbench.exchange.answers import SCHEMA, read_answers, write_answers
from vlmhyperbench.exchange.reading import FORMATS, detect, read

LM_EVAL = {"doc_id": 0, "resps": [["a"]], "target": "a", "filter": "none"}
BATCH = {"custom_id": "a", "response": {"status_code": 200, "body": {"choices": [{"message": {"content": "b"}}]}}}
HEADER = {"schema": SCHEMA, "format": "f", "tool": None, "model": None, "task": None, "decoding": {}}


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("a", json.dumps(LM_EVAL), "lm-eval"),
        ("a.csv", json.dumps({"doc_id": 0, "filtered_resps": ["a"]}), "lm-eval"),
        ("a", "\ufeff\n" + json.dumps(BATCH), "openai-batch"),
        ("a", json.dumps({"custom_id": "a", "error": {"message": "no"}, "response": None}), "openai-batch"),
        ("a.txt", json.dumps(HEADER), "vlmhyperbench-jsonl"),
        ("a", '{"version": 2, "status": "success", "eval": {}}', "inspect"),
        ("a", '{\n  "eval": {\n', "inspect"),
        ("a", "index\tquestion\tprediction\n", "vlmevalkit"),
        ("a", '\ufeff"index","prediction"\r\n', "vlmevalkit"),
        ("a.tsv", "id;model_answer\n", "answers-csv"),
    ],
)
def test_a_file_is_known_by_its_content_whatever_its_name(tmp_path: Path, name: str, content: str, found: str) -> None:
    assert detect(write(tmp_path / name, content)) == found


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("inspect_ai-0.3.285.eval", "inspect"),
        ("inspect_ai-0.3.285-chunked.eval", "inspect"),
        ("inspect_ai-0.3.285.json", "inspect"),
        ("lm_eval-0.4.13/samples_sums_2026-11-21T10-04-14.834969.jsonl", "lm-eval"),
        ("tiny-vlm/tiny-vlm_MiniBench.tsv", "vlmevalkit"),
        ("tiny-vlm/tiny-vlm_MiniBench.xlsx", "vlmevalkit"),
    ],
)
def test_true_files_are_known_and_so_are_their_first_halves(tmp_path: Path, name: str, found: str) -> None:
    whole = (DATA / name).read_bytes()
    assert detect(DATA / name) == found
    assert detect(write(tmp_path / "half", whole[: len(whole) // 2])) == found


@pytest.mark.parametrize(
    "content", ["", "hello", "[]", "{\n", '{"a": 1}', "id,model_answer\n", "PK", "PK\3\4" + "\0" * 60]
)
def test_what_nobody_knows_is_refused_with_what_could_be_read(tmp_path: Path, content: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(write(tmp_path / "a", content))
    assert refused.value.code == "unknown_format"
    assert all(name in refused.value.cure for name in FORMATS)


@pytest.mark.parametrize("content", ['{\n  "results": {', '{"custom_id": "a", "method": "POST", "body": {}}'])
def test_the_wrong_file_of_a_tool_is_named(tmp_path: Path, content: str, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(write(tmp_path / "a", content))
    wording(refused.value)


def test_a_file_that_is_not_there_a_format_that_is_none_and_an_option_of_another_are_refused(
    tmp_path: Path, wording: Wording
) -> None:
    with pytest.raises(NotFound) as refused:
        read(tmp_path / "none")
    wording(refused.value)
    path = write_lines(tmp_path / "a", BATCH)
    with pytest.raises(InvalidInput) as refused:
        read(path, "excel")
    wording(refused.value)
    with pytest.raises(InvalidInput) as refused:
        read(path, filter_name="strict")
    wording(refused.value)
    with pytest.raises(InvalidInput) as refused:
        read(write_lines(tmp_path / "b", LM_EVAL), requests=path)
    wording(refused.value)


def test_text_in_utf16_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "index\tprediction\n".encode("utf-16"))
    with pytest.raises(InvalidInput, match="UTF-16"):
        answers(path, "vlmevalkit")


def test_bytes_that_are_no_utf8_are_named_with_their_line(tmp_path: Path, wording: Wording) -> None:
    path = write(tmp_path / "a", json.dumps(LM_EVAL).encode() + b'\n{"doc_id": 1, "resps": [["\xff"]]}\n')
    with pytest.raises(InvalidInput) as refused:
        answers(path)
    wording(refused.value)


def test_a_file_without_answers_is_refused_once_it_is_read(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        answers(write_lines(tmp_path / "a", HEADER))
    wording(refused.value)


def test_surrogates_are_joined_or_replaced_and_nul_stays_only_in_the_answer(tmp_path: Path) -> None:
    said = "\0 \ud83d\ude00 \ud800 \u202e"
    row = {**LM_EVAL, "doc": {"question": said, "a\0": said}, "target": "\ud800", "resps": [[said]], "ac\0c": 1.0}
    (answer,) = answers(write_lines(tmp_path / "a", row))
    assert answer.text == "\0 😀 � \u202e"
    assert answer.question == "� 😀 � \u202e"
    assert answer.metadata == {"a�": "� 😀 � \u202e"}
    assert answer.references == ("�",)
    assert answer.reported == {"ac�c": 1.0}


@pytest.mark.parametrize(
    "changes", [{"custom_id": "a\x00"}, {"custom_id": "\ud800"}, {"custom_id": ""}, {"custom_id": "a" * 1001}]
)
def test_an_id_that_cannot_be_stored_is_refused(tmp_path: Path, changes: dict[str, object], wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        answers(write_lines(tmp_path / "a", {**BATCH, **changes}), "openai-batch")
    wording(refused.value)


def test_a_reference_with_nul_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="a reference holds a NUL"):
        answers(write_lines(tmp_path / "a", {**LM_EVAL, "target": "\0"}))


def test_every_true_file_becomes_the_neutral_form_and_stays_as_it_is(tmp_path: Path) -> None:
    names = ["inspect_ai-0.3.285.eval", "tiny-vlm/tiny-vlm_MiniBench.xlsx"]
    names += [f"lm_eval-0.4.13/samples_{task}_2026-11-21T10-04-14.834969.jsonl" for task in ("sums", "repeated")]
    for no, name in enumerate(names):
        file, found = taken(DATA / name)
        path = tmp_path / f"{no}.jsonl"
        assert write_answers(path, read(DATA / name)) == len(found)
        again = read_answers(path)
        assert (again.format, again.tool, again.model, again.decoding) == (
            *(file.format, file.tool, file.model),
            file.decoding,
        )
        kept = [
            (answer.key, answer.repeat, answer.text, answer.error, answer.references, answer.reported)
            for answer in again.answers
        ]
        assert kept == [
            (answer.key, answer.repeat, answer.text, answer.error, answer.references, answer.reported)
            for answer in found
        ]


def test_a_line_and_a_row_too_long_to_be_held_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1000)
    path = write(tmp_path / "a.tsv", "index\tprediction\n1\t" + "x" * 1000 + "\n")
    with pytest.raises(InvalidInput) as refused:
        answers(path)
    wording(refused.value)
    path = write(tmp_path / "b.tsv", 'index\tprediction\n1\t"' + "x\n" * 600)
    with pytest.raises(InvalidInput) as refused:
        answers(path)
    wording(refused.value)


@pytest.mark.parametrize("format", FORMATS)
def test_every_reader_refuses_a_file_that_does_not_exist(tmp_path: Path, format: str) -> None:  # noqa: A002 -- as in the product
    with pytest.raises(NotFound, match=re.escape(str(tmp_path / "none"))):
        answers(tmp_path / "none", format)


@pytest.mark.parametrize("format", FORMATS)
def test_every_reader_refuses_a_file_of_another_form(tmp_path: Path, format: str) -> None:  # noqa: A002 -- as in the product
    for no, content in enumerate([b"", b"\0\xff\xfe", b"{}", b"[]", b"PK\3\4", b"hello;you\n1;2\n"]):
        with pytest.raises(InvalidInput):
            answers(write(tmp_path / str(no), content), format)


@pytest.mark.parametrize(
    ("name", "library"),
    [("tiny-vlm/tiny-vlm_MiniBench.xlsx", "openpyxl"), ("inspect_ai-0.3.285.eval", "polars")],
)
def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, name: str, library: str) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(Unavailable, match=library) as refused:
        answers(DATA / name)
    assert refused.value.code == "not_installed"
