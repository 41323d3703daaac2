"""The mapping of columns: how a cell becomes a question, an answer, a choice; and what is said of a wrong one."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import tables
from tests.support.wording import Wording
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.types import Sample
from vlmhyperbench_table_datasets.table import TableDataset


def read(folder: Path, columns: Any, *rows: dict[str, Any]) -> list[Sample]:
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return list(TableDataset(DatasetSource(path=file, params={"columns": columns})))


def refused(folder: Path, columns: Any, *rows: dict[str, Any]) -> InvalidInput:
    with pytest.raises(InvalidInput) as error:
        read(folder, columns, *rows)
    return error.value


def test_cells_are_parsed_split_matched_and_replaced(tmp_path: Path) -> None:
    columns = {
        "question": {"value": "Which kind is it?"},
        "images": [{"column": "scan", "parse": "base64"}, {"column": "more", "default": None}],
        "references": {"column": "truth", "parse": "json", "at": "total.price"},
        "metadata": {
            "words": {"column": "words", "split": " "},
            "tags": {"column": "tags", "map": {0: "O", 3: "B-X"}, "join": " "},
            "result": {"column": "solution", "pattern": "#### (.*)"},
            "answer": {"column": "flag", "map": {0: "no", True: "yes"}},
            "first": "nested.0.text",
        },
    }
    rows = {
        "scan": base64.b64encode(tables.png(1)).decode(),
        "truth": '{"total": {"price": "9.50"}}',
        "words": "a b",
        "tags": [3, 0],
        "solution": "So it is\n#### 42",
        "flag": True,
        "nested.0.text": "x",
    }
    (sample,) = read(tmp_path, columns, rows)
    assert (sample.question, sample.references) == ("Which kind is it?", ("9.50",))
    assert [image.read() for image in sample.images] == [tables.png(1)]
    assert sample.metadata == {"words": ["a", "b"], "tags": "B-X O", "result": "42", "answer": "yes", "first": "x"}


def test_a_member_that_is_a_list_is_one_where_a_row_has_a_lone_value(tmp_path: Path) -> None:
    columns = {
        "question": {"value": "Read it."},
        "references": {"column": "truth", "parse": "json", "lists": ["menu", "menu.sub"]},
    }
    truths: tuple[dict[str, Any], ...] = (
        {"menu": {"nm": "x", "sub": {"nm": "y"}}},
        {"menu": [{"nm": "x"}], "total": {}},
        {"menu": None},
        {},
    )
    samples = read(tmp_path, columns, *({"truth": json.dumps(truth)} for truth in truths))
    assert [json.loads(sample.references[0]) for sample in samples] == [
        {"menu": [{"nm": "x", "sub": [{"nm": "y"}]}]},
        *truths[1:],
    ]


@pytest.mark.parametrize(
    ("correct", "cell", "references"),
    [
        ("answer", 1, ("B",)),
        ({"column": "answer", "accept": "both"}, "1", ("B", "wolf")),
        ({"column": "answer", "by": "letter", "accept": "text"}, "c", ("owl",)),
        ({"column": "answer", "by": "text"}, "cat", ("A",)),
    ],
)
def test_the_correct_choice_is_named_by_index_letter_or_text(
    tmp_path: Path, correct: Any, cell: Any, references: tuple[str, ...]
) -> None:
    columns = {"question": "q", "choices": {"column": "options", "parse": "python"}, "correct": correct}
    (sample,) = read(tmp_path, columns, {"q": "Which?", "options": "['cat', 'wolf', 'owl']", "answer": cell})
    assert sample.references == references
    assert sample.metadata == {"choices": ["cat", "wolf", "owl"]}


def test_choices_of_several_columns_are_joined(tmp_path: Path) -> None:
    columns = {"question": "q", "choices": ["A", "B"], "correct": {"column": "right", "by": "letter"}}
    (sample,) = read(tmp_path, columns, {"q": "?", "A": "one", "B": "two", "right": "B"})
    assert (sample.references, sample.metadata["choices"]) == (("B",), ["one", "two"])


def test_choices_that_are_not_there_end_a_list_and_move_no_letter(tmp_path: Path) -> None:
    columns = {"question": "q", "choices": "options", "correct": {"column": "answer"}}
    (sample,) = read(tmp_path, columns, {"q": "?", "options": ["a", "b", None, None], "answer": 1})
    assert (sample.metadata["choices"], sample.references) == (["a", "b"], ("B",))
    for given in ({"choices": "options"}, {"choices": ["A", "B", "C"]}):
        row = {"q": "?", "options": ["a", None, "c"], "A": "a", "B": None, "C": "c"}
        assert "the choice B is null, and C is not" in str(refused(tmp_path, {"question": "q", **given}, row))


def test_every_mistake_of_a_mapping_is_named_at_once(tmp_path: Path, wording: Wording) -> None:
    file = tables.write_csv(tmp_path)
    columns: dict[str, Any] = {
        "qestion": "question",
        "images": "imge",
        "references": {"column": "answers", "parse": "xml"},
        "correct": {"column": "answers", "by": "size"},
        "metadata": {"a\0b": {"column": "do\0c"}, "kind": {"split": 3}},
    }
    with pytest.raises(InvalidInput) as error:
        TableDataset(DatasetSource(path=file, params={"columns": columns}))
    wording(error.value)


@pytest.mark.parametrize("columns", [{}, {"references": "answers"}, "question", {"question": 3}])
def test_a_mapping_that_names_nothing_to_ask_is_refused(tmp_path: Path, columns: Any) -> None:
    assert refused(tmp_path, columns, {"question": "?"}).code == "invalid_input"


def test_rows_of_another_form_are_listed_with_their_lines(tmp_path: Path, wording: Wording) -> None:
    columns = {"question": "question", "references": "answer", "images": {"column": "image", "default": None}}
    wording(
        refused(
            tmp_path,
            columns,
            {"question": "right?", "answer": "yes"},
            {"qestion": "right?", "answer": "yes"},
            {"question": 7, "answer": "yes"},
            {"question": " ", "answer": "yes"},
            {"question": "right?", "answer": "yes", "image": 3},
        )
    )


def test_metadata_that_no_row_has_is_an_error_and_that_some_lack_is_none(tmp_path: Path) -> None:
    columns = {"question": "q", "metadata": ["kind", "knd"]}
    rows = ({"q": "a", "kind": "x"}, {"q": "b"})
    assert "'knd'" in refused(tmp_path, columns, *rows).message
    assert [sample.metadata for sample in read(tmp_path, {**columns, "metadata": ["kind"]}, *rows)] == [
        {"kind": "x"},
        {},
    ]
