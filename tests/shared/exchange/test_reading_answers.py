"""The neutral form: what is written is read again, and nothing else is read."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shared.exchange.reading import write, write_lines
from tests.support.wording import Wording
from vlmhyperbench.errors import InvalidInput, NotFound, Unavailable
from vlmhyperbench.exchange.answers import SCHEMA, AnswersFile, ImportedAnswer, read_answers, write_answers

HEADER = {"schema": SCHEMA, "format": "inspect", "tool": None, "model": "m", "task": "t", "decoding": {}}
ROW = {"key": "a", "text": "yes"}

_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
_said = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_count = st.none() | st.integers(0, 2**53)
_number = st.floats(allow_nan=False, allow_infinity=False)
_json = st.recursive(
    st.none() | st.booleans() | _number | _text, lambda answer: st.lists(answer, max_size=3), max_leaves=5
)
_name = _text.filter(bool)
_answer = st.builds(
    ImportedAnswer,
    key=_name,
    repeat=st.integers(0, 3),
    question=st.none() | _text,
    references=st.none() | st.lists(_text, max_size=3).map(tuple),
    metadata=st.dictionaries(_text, _json, max_size=3),
    text=_said,
    reasoning=st.none() | _said,
    error=st.none() | _text,
    finish_reason=st.none() | _text,
    prompt_tokens=_count,
    completion_tokens=_count,
    latency_ms=st.none() | st.floats(0, 1e300),
    reported=st.dictionaries(_name, _number, max_size=3),
)


def made(*answers: ImportedAnswer) -> AnswersFile:
    """Make a file of answers."""
    return AnswersFile(
        format="inspect", tool="inspect_ai 0.3", model=None, task="t", decoding={"n": 2}, answers=iter(answers)
    )


@given(st.lists(_answer, max_size=5, unique_by=lambda answer: (answer.key, answer.repeat)))
@settings(deadline=None, max_examples=60)
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, found: list[ImportedAnswer]) -> None:
    path = tmp_path_factory.mktemp("answers") / "a.jsonl"
    assert write_answers(path, made(*found)) == len(found)
    read = read_answers(path)
    again = list(read.answers)
    assert [read.format, read.tool, read.model, read.task, read.decoding] == [
        "inspect",
        "inspect_ai 0.3",
        None,
        "t",
        {"n": 2},
    ]
    assert [answer.location for answer in again] == [f"{path}:{no}" for no in range(2, len(found) + 2)]
    for first, second in zip(found, again, strict=True):
        for name in ImportedAnswer.__slots__:
            assert name == "location" or getattr(first, name) == getattr(second, name)


def test_an_answer_of_a_million_characters_and_control_characters_is_kept(tmp_path: Path) -> None:
    long = 'я\0\u202e\u2028\r\n"' * 150_000
    write_answers(tmp_path / "a.jsonl", made(ImportedAnswer(key="k", text=long)))
    assert next(read_answers(tmp_path / "a.jsonl").answers).text == long


@pytest.mark.parametrize(
    "row",
    [
        {**ROW, "score": 1},
        {"key": "a"},
        {"text": "a"},
        {**ROW, "key": ""},
        {**ROW, "key": 7},
        {**ROW, "repeat": "1"},
        {**ROW, "repeat": True},
        {**ROW, "repeat": -1},
        {**ROW, "prompt_tokens": 1.5},
        {**ROW, "latency_ms": -0.1},
        {**ROW, "reported": {"acc": "1"}},
        {**ROW, "reported": {"acc": None}},
        {**ROW, "references": "a"},
        {**ROW, "text": None},
        {**ROW, "key": "a\x00"},
        {**ROW, "text": "\ud800"},
        {**ROW, "metadata": {"a": ["\ud800"]}},
        {**ROW, "reported": {"acc": float("nan")}},
    ],
)
def test_a_line_that_is_not_of_the_form_is_refused_with_its_place(
    tmp_path: Path, row: dict[str, object], wording: Wording
) -> None:
    path = write_lines(tmp_path / "a.jsonl", HEADER, row)
    with pytest.raises(InvalidInput) as refused:
        list(read_answers(path).answers)
    assert refused.value.message.startswith(f"{path}:2")
    wording(refused.value.message)


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        ({**HEADER, "schema": "vlmhb/answers/v2"}, "schema"),
        ({**HEADER, "run": {}}, ":1: run: "),
        ({name: value for name, value in HEADER.items() if name != "model"}, ":1: model: "),
        (ROW, ":1: schema: "),
    ],
)
def test_a_header_that_is_not_of_the_form_is_refused(tmp_path: Path, header: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        read_answers(write_lines(tmp_path / "a.jsonl", header, ROW))


def test_an_empty_file_a_blank_line_and_half_a_line_are_refused(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(InvalidInput, match=r"a\.jsonl:1 ") as refused:
        read_answers(write(tmp_path / "a.jsonl", ""))
    wording(refused.value)
    for end, line in (("\n", 3), ('{"key": "b", "te', 3)):
        path = write(tmp_path / "a.jsonl", json.dumps(HEADER) + "\n" + json.dumps(ROW) + "\n" + end)
        with pytest.raises(InvalidInput, match=rf"a\.jsonl:{line} ") as refused:
            list(read_answers(path).answers)
        wording(refused.value)


def test_the_error_for_a_duplicate_key_and_repeat_names_both_locations(tmp_path: Path, wording: Wording) -> None:
    path = write_lines(
        tmp_path / "a.jsonl", HEADER, ROW, {**ROW, "repeat": 1}, {**ROW, "key": "b"}, {**ROW, "repeat": 1}
    )
    with pytest.raises(InvalidInput) as refused:
        list(read_answers(path).answers)
    assert refused.value.code == "repeated_id"
    wording(refused.value)


def test_what_our_export_says_beside_is_known_in_its_own_files_only(tmp_path: Path) -> None:
    beside = {**ROW, "phase": 1, "measures": [], "parsed": {"text@1": "\0"}}
    plain = {**ROW, "phase": 1}
    own = {**HEADER, "format": "vlmhyperbench-jsonl", "run": {"id": "1"}}
    assert [answer.key for answer in read_answers(write_lines(tmp_path / "own.jsonl", own, beside)).answers] == ["a"]
    with pytest.raises(InvalidInput, match=r"other\.jsonl:2: phase: "):
        list(read_answers(write_lines(tmp_path / "other.jsonl", HEADER, plain)).answers)


def test_nothing_half_written_is_left_and_an_older_file_stays(tmp_path: Path, wording: Wording) -> None:
    path = write(tmp_path / "a.jsonl", "older")

    def failing() -> Iterator[ImportedAnswer]:
        yield ImportedAnswer(key="a", text="b")
        raise InvalidInput("line 2 is wrong")

    with pytest.raises(InvalidInput, match="line 2"):
        write_answers(path, replace(made(), answers=failing()))
    with pytest.raises(InvalidInput) as refused:
        write_answers(path, made(ImportedAnswer(key="a", text="\ud800", location="f:1")))
    wording(refused.value)
    assert [answer.name for answer in tmp_path.iterdir()] == ["a.jsonl"]
    assert path.read_text() == "older"


def test_places_that_cannot_be_written_or_read_are_named(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(Unavailable) as refused:
        write_answers(tmp_path / "none" / "a.jsonl", made(ImportedAnswer(key="a", text="b")))
    wording(refused.value)
    with pytest.raises(NotFound) as refused:
        read_answers(tmp_path / "none.jsonl")
    wording(refused.value)


_COUNT = """
import resource, sys
from pathlib import Path
from vlmhyperbench.exchange.reading import read
kib = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
file, before = read(Path(sys.argv[1])), kib()
print(sum(len(answer.text) for answer in file.answers), kib() - before)
"""


def test_a_hundred_thousand_answers_are_streamed(tmp_path: Path) -> None:
    """Texts of 2 KB make 200 MB; what may stay is what finds keys that come twice, some hundred bytes each."""
    text = "x" * 2000
    many = (ImportedAnswer(key=str(no), text=text, location="f") for no in range(100_000))
    assert write_answers(tmp_path / "a.jsonl", replace(made(), answers=many)) == 100_000
    run = subprocess.run(
        [sys.executable, "-c", _COUNT, str(tmp_path / "a.jsonl")], capture_output=True, text=True, check=True
    )
    read, grown_kib = map(int, run.stdout.split())
    assert read == 200_000_000
    assert grown_kib < 80_000
