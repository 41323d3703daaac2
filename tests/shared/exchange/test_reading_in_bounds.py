"""Files that strangers made to be large are read within bounds, or refused with the reason."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.shared.exchange.reading import answers, write
from tests.support.wording import Wording
from vlmhyperbench.bounded import TOO_LARGE, ChildBounds
from vlmhyperbench.errors import InvalidInput, NotFound, Unavailable, VlmHyperBenchError
from vlmhyperbench.exchange import answers as neutral
from vlmhyperbench.exchange.answers import SCHEMA, read_answers
from vlmhyperbench.exchange.converting import convert
from vlmhyperbench.exchange.summary import summarise

HEADER = {"schema": SCHEMA, "format": "x", "tool": None, "model": "m", "task": None, "decoding": {}}
MIB = 2**20


def _file(path: Path, lines: Iterable[str]) -> Path:
    with path.open("w") as file:
        file.write(json.dumps(HEADER) + "\n")
        file.writelines(f"{line}\n" for line in lines)
    return path


def _small(count: int) -> Iterable[str]:
    return (json.dumps({"key": str(no), "text": "a"}) for no in range(count))


def test_many_small_answers_are_checked_in_little_memory(tmp_path: Path) -> None:
    path = _file(tmp_path / "small", _small(50_000))
    found = asyncio.run(summarise(path, sha256="0" * 64, bounds=ChildBounds(memory_bytes=96 * MIB)))
    assert (found.answers, found.samples) == (50_000, 50_000)


@pytest.mark.parametrize("lines", [_small(200_000), [json.dumps({"key": "a", "text": "x" * (32 * MIB)})]])
def test_a_file_that_takes_more_memory_than_it_may_is_refused(tmp_path: Path, lines: Iterable[str]) -> None:
    path = _file(tmp_path / "large", lines)
    with pytest.raises(InvalidInput) as refused:
        asyncio.run(summarise(path, sha256="0" * 64, bounds=ChildBounds(memory_bytes=24 * MIB)))
    assert refused.value.code == TOO_LARGE


def test_a_file_with_more_answers_than_files_may_have_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neutral, "MAX_ANSWERS", 3)
    assert len(list(read_answers(_file(tmp_path / "three", _small(3))).answers)) == 3
    with pytest.raises(InvalidInput) as refused:
        list(read_answers(_file(tmp_path / "four", _small(4))).answers)
    assert (refused.value.code, f"{tmp_path}/four:5" in refused.value.message) == (TOO_LARGE, True)


def test_a_file_that_reports_a_new_score_with_every_answer_is_refused(tmp_path: Path) -> None:
    lines = (json.dumps({"key": str(no), "text": "a", "reported": {f"score {no}": 1}}) for no in range(1001))
    with pytest.raises(InvalidInput, match="line:1002"):
        asyncio.run(summarise(_file(tmp_path / "scores", lines), sha256="0" * 64))


def test_a_file_of_another_tool_is_read_in_a_child_as_in_this_process(tmp_path: Path, wording: Wording) -> None:
    source = write(tmp_path / "answers.csv", "id;model_answer\na;'=1\nb;'-2\n")
    notes = asyncio.run(convert(source, tmp_path / "neutral"))
    assert [(answer.key, answer.text) for answer in read_answers(tmp_path / "neutral").answers] == [
        ("a", "=1"),
        ("b", "-2"),
    ]
    wording("\n".join(notes))
    assert [answer.text for answer in answers(source)] == ["=1", "-2"]


@pytest.mark.parametrize(
    ("text", "bounds", "kind"),
    [
        (None, ChildBounds(), NotFound),
        ("odd", ChildBounds(), InvalidInput),
        ("id;model_answer\na;" + "x" * (8 * MIB) + "\n", ChildBounds(memory_bytes=8 * MIB), InvalidInput),
        ("id;model_answer\na;" + "x" * (2 * MIB) + "\n", ChildBounds(file_bytes=MIB), Unavailable),
    ],
    ids=["no file", "no format", "memory", "size of the result"],
)
def test_what_cannot_be_read_leaves_nothing(
    tmp_path: Path, text: str | None, bounds: ChildBounds, kind: type[VlmHyperBenchError]
) -> None:
    source = tmp_path / "source"
    if text is not None:
        write(source, text)
    with pytest.raises(kind):
        asyncio.run(convert(source, tmp_path / "neutral", bounds=bounds))
    assert not (tmp_path / "neutral").exists()
