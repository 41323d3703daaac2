"""Files that are wrong: each is named with its line, and nothing after the first wrong row becomes a sample."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.wording import Wording
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.types import Sample
from vlmhyperbench_table_datasets.table import TableDataset

COLUMNS = {"question": "question", "references": "answer"}


def dataset(file: Path, content: bytes, **params: Any) -> TableDataset:
    file.write_bytes(content)
    return TableDataset(DatasetSource(path=file, params={"columns": COLUMNS, **params}))


def test_one_broken_row_of_many_is_named_and_none_after_it_is_a_sample(tmp_path: Path, wording: Wording) -> None:
    rows = [b"q%d,a" % number for number in range(5000)]
    rows[2500], rows[4000] = b"q,a,b", b'"q"x,a'
    read: list[Sample] = []
    with pytest.raises(InvalidInput) as refused:
        read.extend(dataset(tmp_path / "a.csv", b"question,answer\n" + b"\n".join(rows)))
    wording(refused.value)
    assert len(read) == 2500


def test_a_file_of_two_encodings_is_refused_at_its_line(tmp_path: Path) -> None:
    content = "question;answer\nÄ;1\n".encode() + "ö;2\n".encode("cp1252")
    with pytest.raises(InvalidInput, match=r"a\.csv:3"):
        list(dataset(tmp_path / "a.csv", content))
    whole = "question;answer\nö;2\n".encode("cp1252")
    (sample,) = dataset(tmp_path / "b.csv", whole, encoding="cp1252")
    assert sample.question == "ö"


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.csv", b"question,answer,question\n1,2,3\n", "a.csv:1"),
        ("a.csv", b"question,ans\0wer\n1,2\n", "a.csv:1"),
        ("a.csv", b"question,,answer\n1,2,3\n", "a.csv:1"),
        ("a.csv", b"question,answer,\x1b[2J\n1,2,3\n", "control character"),
        ("a.csv", b"", "a.csv"),
        ("a.jsonl", b'{"question": "?", "answer": "a"}\n{"question": ', "a.jsonl:2"),
        ("a.jsonl", b'["question"]\n', "a.jsonl:1"),
        ("a.jsonl", b'{"question": "?", "answer": NaN}\n', "a.jsonl:1"),
        ("a.jsonl", b'{"question": "\xff", "answer": "a"}\n', "a.jsonl:1"),
        ("a.jsonl", b'{"question": "?", "question": "!"}\n', "a.jsonl:1: it is no JSON: the key 'question' appears"),
        ("a.jsonl", b'{"question": "?", "answer": ' + b"9" * 9999 + b"}", "a.jsonl:1: it is no JSON: a number has"),
        ("a.jsonl", b'{"question": "?", "answer": ' + b"[" * 99999, "a.jsonl:1: it is nested too deeply"),
        ("a.jsonl", b"", "a.jsonl"),
        ("a.parquet", b"PAR1 and no more", "a.parquet"),
        ("a.arrow", b"\xff\xff\xff\xff\x10\0\0\0", "a.arrow"),
        ("a.arrow", b"", "a.arrow"),
        ("a.zip", b"PK", "a.zip"),
        ("a.csv.zst", b"\x28\xb5\x2f\xfd", "a.csv.zst is compressed"),
        ("a.jsonl.GZ", b"\x1f\x8b", "a.jsonl.GZ is compressed"),
    ],
)
def test_a_malformed_file_is_refused_with_its_place(tmp_path: Path, name: str, content: bytes, place: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        list(dataset(tmp_path / name, content))
    assert place in refused.value.message


def test_compressed_tables_are_refused_with_the_command_that_unpacks_them(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / "test.jsonl.zst"
    file.write_bytes(b"\x28\xb5\x2f\xfd")
    for source in (
        DatasetSource(path=file),
        DatasetSource(path=file, params={"format": "jsonl"}),
        DatasetSource(path=tmp_path, params={"files": "data/*"}),
    ):
        with pytest.raises(InvalidInput) as refused:
            TableDataset(source)
        assert "`zstd -d test.jsonl.zst`" in str(refused.value.cure)
    with pytest.raises(NotFound) as missing:
        TableDataset(DatasetSource(path=tmp_path))
    assert "`zstd -d test.jsonl.zst`" in str(missing.value.cure)


def test_names_with_control_characters_are_refused_where_they_would_be_metadata(tmp_path: Path) -> None:
    row = b'{"question": "?", "answer": "a", "b\\u0000": 1}\n'
    assert len(list(dataset(tmp_path / "a.jsonl", row))) == 1
    for columns in (None, {**COLUMNS, "metadata": {"c\n": "answer"}}):
        with pytest.raises(InvalidInput, match="control character"):
            list(TableDataset(DatasetSource(path=tmp_path / "a.jsonl", params={"columns": columns} if columns else {})))


@pytest.mark.parametrize("params", [{"colums": {}}, {"separator": ";;"}, {"encoding": "utf-99"}, {"format": 3}])
def test_wrong_params_are_refused(tmp_path: Path, params: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        dataset(tmp_path / "a.csv", b"question,answer\n1,2\n", **params)


def test_a_path_that_does_not_exist_and_one_that_is_missing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        TableDataset(DatasetSource(path=tmp_path / "none.csv"))
    with pytest.raises(InvalidInput):
        TableDataset(DatasetSource())
    with pytest.raises(NotFound):
        TableDataset(DatasetSource(path=tmp_path))
