"""The annotation CSV: what it yields, and how it says what is wrong with a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.wording import Wording
from vlmhyperbench_document_datasets.annotation_csv import AnnotationCsv
from vlmhyperbench_sdk.discovery import load
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.testing.datasets import check_dataset
from vlmhyperbench_sdk.types import Sample

HEADER = "data_index;split;image_path;question;answer;doc_class;question_type;answer_bbox"
ROWS = (
    'a1;train;images/a.png;"What; is it?";a cup;photo;what;[1, 2, 3, 4]',
    "a2;test;images/b.png;Quel âge ?;trois;;;",
    "a3;test;;Two words?;one two;text;what;top left",
)


def _write(folder: Path, *rows: str, header: str = HEADER, encoding: str = "utf-8") -> Path:
    file = folder / "annotation.csv"
    file.write_text("\n".join((header, *rows)) + "\n", encoding=encoding)
    return file


def _samples(path: Path, split: str | None = None) -> list[Sample]:
    return list(AnnotationCsv(DatasetSource(path=path, split=split)))


def test_it_is_found_by_its_registered_name_and_keeps_the_contract(tmp_path: Path) -> None:
    _write(tmp_path, *ROWS)
    (tmp_path / "images").mkdir()
    for name in ("a", "b"):
        (tmp_path / "images" / f"{name}.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert load("datasets", "annotation_csv") is AnnotationCsv
    assert check_dataset(AnnotationCsv, DatasetSource(path=tmp_path)) == 3


def test_a_row_becomes_a_sample(tmp_path: Path) -> None:
    first, second, third = _samples(_write(tmp_path, *ROWS))
    assert (first.key, first.question, first.references) == ("0", "What; is it?", ("a cup",))
    assert first.images[0].path == tmp_path / "images/a.png"
    assert first.metadata == {
        "data_index": "a1",
        "split": "train",
        "doc_class": "photo",
        "question_type": "what",
        "answer_bbox": [1, 2, 3, 4],
    }
    assert second.metadata == {"data_index": "a2", "split": "test"}
    assert third.images == ()
    assert third.metadata["answer_bbox"] == "top left"


def test_the_key_is_the_row_of_the_file_whatever_the_split(tmp_path: Path) -> None:
    _write(tmp_path, *ROWS)
    assert [sample.key for sample in _samples(tmp_path, split="test")] == ["1", "2"]


def test_a_byte_order_mark_and_blank_lines_do_no_harm(tmp_path: Path) -> None:
    file = _write(tmp_path, ROWS[0], "", ROWS[1], encoding="utf-8-sig")
    assert [sample.key for sample in _samples(file)] == ["0", "1"]


def test_the_optional_columns_may_be_missing(tmp_path: Path) -> None:
    _write(tmp_path, "a.png;What?;x", header="image_path;question;answer")
    assert _samples(tmp_path)[0].metadata == {}


@pytest.mark.parametrize("number", ["NaN", "[1e999]"])
def test_a_number_that_json_does_not_know_stays_text(tmp_path: Path, number: str) -> None:
    _write(tmp_path, f"a.png;What?;x;{number}", header="image_path;question;answer;answer_bbox")
    assert _samples(tmp_path)[0].metadata == {"answer_bbox": number}


@pytest.mark.parametrize("separator", [";", ",", "\t"])
def test_commas_and_tabs_separate_too_and_columns_of_ones_own_are_metadata(tmp_path: Path, separator: str) -> None:
    header, row = ["question", "image", "answer", "my tag"], ["What?", "a.png", '"$1,234; or so"', "blue"]
    [sample] = _samples(_write(tmp_path, separator.join(row), header=separator.join(header)))
    assert (sample.question, sample.references, sample.metadata) == ("What?", ("$1,234; or so",), {"my tag": "blue"})
    assert sample.images[0].path == tmp_path / "a.png"


def test_questions_on_text_alone_need_no_column_of_images(tmp_path: Path) -> None:
    [sample] = _samples(_write(tmp_path, "2 + 2?,4", header="question,answer"))
    assert (sample.images, sample.metadata) == ((), {})


def test_every_wrong_line_is_named_at_once(tmp_path: Path, wording: Wording) -> None:
    file = _write(tmp_path, ROWS[0], "too;few", ROWS[1], "a;b;c;nul\0;e;f;g;h", ";;;;;;;")
    with pytest.raises(InvalidInput) as raised:
        _samples(file)
    wording(raised.value)


def test_a_thousand_wrong_lines_are_counted_not_printed(tmp_path: Path) -> None:
    file = _write(tmp_path, *["x"] * 1000)
    with pytest.raises(InvalidInput, match=r"… and 980 more"):
        _samples(file)


def test_wrong_columns_are_named_with_the_nearest(tmp_path: Path, wording: Wording) -> None:
    file = _write(tmp_path, header="image_path;image;questions;answer;doc_clas;split;split;")
    with pytest.raises(InvalidInput) as raised:
        _samples(file)
    wording(raised.value)


def test_an_empty_file_lacks_every_column(tmp_path: Path, wording: Wording) -> None:
    (tmp_path / "annotation.csv").write_bytes(b"")
    with pytest.raises(InvalidInput) as refused:
        _samples(tmp_path)
    wording(refused.value)


def test_another_encoding_is_refused(tmp_path: Path, wording: Wording) -> None:
    file = _write(tmp_path, ROWS[0], ROWS[1], encoding="latin-1")
    with pytest.raises(InvalidInput) as refused:
        _samples(file)
    wording(refused.value)


def test_broken_quoting_is_refused_with_its_line(tmp_path: Path) -> None:
    file = _write(tmp_path, 'a;b;c;"open" x;e;f;g;h')
    with pytest.raises(InvalidInput, match=r"annotation\.csv:2: "):
        _samples(file)


def test_a_quote_that_is_never_closed_is_named_where_it_is_opened(tmp_path: Path) -> None:
    file = _write(tmp_path, 'a;b;c;"of two\nlines";e;f;g;h', 'a;b;c;"open;e;f;g;h', *[ROWS[1]] * 5000)
    with pytest.raises(InvalidInput, match=r"annotation\.csv:4: "):
        _samples(file)


@pytest.mark.parametrize("broken", ["a.png;what", 'a.png;"what;a cup'])
def test_a_broken_line_is_found_among_a_million(tmp_path: Path, broken: str) -> None:
    row = "a.png;what;a cup"
    file = _write(tmp_path, *[row] * 599_999, broken, *[row] * 400_000, header="image_path;question;answer")
    with pytest.raises(InvalidInput, match=r"annotation\.csv:600001: "):
        _samples(file)


def test_an_unknown_split_is_refused_with_the_known_ones(tmp_path: Path, wording: Wording) -> None:
    _write(tmp_path, *ROWS)
    with pytest.raises(InvalidInput) as refused:
        _samples(tmp_path, split="dev")
    wording(refused.value)


def test_a_file_without_rows_is_refused(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        _samples(_write(tmp_path))
    wording(refused.value)


def test_a_missing_path_and_a_missing_file_are_different_mistakes(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(InvalidInput, match="needs a path"):
        AnnotationCsv(DatasetSource())
    with pytest.raises(NotFound) as refused:
        AnnotationCsv(DatasetSource(path=tmp_path))
    wording(refused.value)
