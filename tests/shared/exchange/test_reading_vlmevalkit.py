"""Tables of VLMEvalKit: as pandas writes them into tsv, csv and xlsx."""

from __future__ import annotations

import zipfile
from pathlib import Path

import openpyxl
import pytest

from tests.shared.exchange.reading import DATA, answers, taken, write
from tests.support.wording import Wording
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange import vlmevalkit

TSV = DATA / "tiny-vlm" / "tiny-vlm_MiniBench.tsv"
XLSX = DATA / "tiny-vlm" / "tiny-vlm_MiniBench.xlsx"


def table(path: Path, *rows: list[object]) -> Path:
    """Write a workbook with openpyxl."""
    book = openpyxl.Workbook()
    for row in rows:
        book.worksheets[0].append(row)
    book.save(path)
    return path


@pytest.mark.parametrize("path", [TSV, XLSX])
def test_the_true_tables_are_read_with_quoted_newlines_empty_cells_and_failures(path: Path) -> None:
    file, found = taken(path)
    assert (file.format, file.tool, file.model, file.task) == ("vlmevalkit", "VLMEvalKit", "tiny-vlm", "MiniBench")
    assert [(answer.key, answer.question, answer.text, answer.references) for answer in found] == [
        ("0", "What is\nthis?", "A. cat", ("A",)),
        ("1", 'Says "x"\tor y?', "", ("x", "X")),
        ("2", "=SUM(A1)", "=1+1", ("B",)),
        ("3", "Read it.", None, None),
        ("4", "Why?", "мир\x01\r\n\u202eabc", ("NA",)),
    ]
    assert [answer.error for answer in found] == [None, None, None, "Failed to obtain answer via API.", None]
    assert [dict(answer.reported) for answer in found] == [{"hit": 1.0}, {"hit": 0.0}, {"hit": 0.0}, {}, {"hit": 1.0}]
    assert [answer.metadata for answer in found[:4]] == [
        {"category": "animal", "l2-category": "L"},
        {"category": "text", "l2-category": "M"},
        {"category": "math", "l2-category": "M"},
        {"l2-category": "M"},
    ]
    assert file.notes == []


def test_places_are_the_lines_where_rows_begin() -> None:
    assert [answer.location.rpartition(":")[2] for answer in answers(TSV)] == ["2", "4", "5", "6", "7"]
    assert answers(XLSX)[0].location == f"{XLSX}!row 2"


def test_a_bom_and_line_ends_of_windows_are_left_out(tmp_path: Path) -> None:
    text = '\ufeff"index"\t"question"\t"prediction"\r\n"1"\t"a\r\nb"\t"c"\r\n\r\n2\td\te'
    assert [(answer.key, answer.question, answer.text) for answer in answers(write(tmp_path / "a.tsv", text))] == [
        ("1", "a\r\nb", "c"),
        ("2", "d", "e"),
    ]


def test_csv_after_evaluation_is_read_with_every_column_of_scores(tmp_path: Path) -> None:
    text = "index,prediction,score,eval_score,eval_match,log\n1,x,0.5,nan,True,ok\n2,y,[NO],,False,\n"
    found = answers(write(tmp_path / "a.csv", text))
    assert [dict(answer.reported) for answer in found] == [{"score": 0.5, "eval_match": 1.0}, {"eval_match": 0.0}]
    assert [answer.metadata for answer in found] == [{}, {}]


def test_reasoning_that_the_kit_split_off_is_kept(tmp_path: Path) -> None:
    (answer,) = answers(write(tmp_path / "a.tsv", "index\tprediction\tthinking\n1\t4\t2 and 2\n"))
    assert (answer.text, answer.reasoning) == ("4", "2 and 2")


def test_a_list_of_numbers_is_one_reference_and_texts_are_several(tmp_path: Path) -> None:
    text = 'index\tprediction\tanswer\n1\tx\t[2, 5]\n2\tx\t"[""a"",""b""]"\n3\tx\t[a]\n'
    assert [answer.references for answer in answers(write(tmp_path / "a.tsv", text))] == [
        ("[2, 5]",),
        ("a", "b"),
        ("[a]",),
    ]


def test_model_and_dataset_are_not_guessed(tmp_path: Path) -> None:
    file, _ = taken(write(tmp_path / "some_model_Bench.tsv", "index\tprediction\n1\tx\n"))
    assert (file.model, file.task) == (None, None)


@pytest.mark.parametrize(
    "text",
    [
        "index\tquestion\n1\tx\n",
        "prediction\tquestion\n",
        "index\tprediction\tindex\n",
        "index\tprediction\n1\tx\ty\n",
        "index\tprediction\n1\tx\n2\n",
        'index\tprediction\n1\tx\n2\t"y\n3\tz\n',
        'index\tprediction\n1\t"x" y\n',
        'index\tprediction\n1\tx "y"\n',
        "index\tprediction\n\tx\n",
        "index\tprediction\n1\tx\n2\ty\n1\tz\n",
        "index\tprediction\n",
        "",
    ],
)
def test_a_table_that_makes_no_sense_is_refused_with_its_line(tmp_path: Path, text: str, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        answers(write(tmp_path / "a.tsv", text), "vlmevalkit")
    wording(refused.value)


def test_cells_of_a_workbook_are_read_as_pandas_writes_them_into_tsv(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        ["index", "prediction", "hit", "category"],
        [1.0, 2.5, True, None],
        [2, "_x0041_ _x000D_", None, "x" * 201],
        [None, None, None, None],
        ["c", None, "0.5", 7],
        ["d", "=1+1", None, None],
    ]
    found = answers(table(tmp_path / "a.xlsx", *rows))
    assert [(answer.key, answer.text, answer.reported, answer.metadata) for answer in found] == [
        ("1", "2.5", {"hit": 1.0}, {}),
        ("2", "_x0041_ \r", {}, {}),
        ("c", "", {"hit": 0.5}, {"category": "7"}),
        ("d", "=1+1", {}, {}),
    ]


def test_cells_that_excel_truncated_are_noted(tmp_path: Path, wording: Wording) -> None:
    path = table(tmp_path / "a.xlsx", ["index", "prediction"], [1, "x" * 32_767], [2, "x" * 32_766])
    wording("\n".join(taken(path)[0].notes))


def test_a_workbook_cut_off_damaged_or_of_another_kind_is_refused(tmp_path: Path, wording: Wording) -> None:
    whole = XLSX.read_bytes()
    with pytest.raises(InvalidInput) as refused:
        answers(write(tmp_path / "a.xlsx", whole[:-100]))
    wording(refused.value)
    with zipfile.ZipFile(XLSX) as good, zipfile.ZipFile(tmp_path / "b.xlsx", "w") as bad:
        for name in good.namelist():
            bad.writestr(name, b"<broken" if "sheet1" in name else good.read(name))
    with pytest.raises(InvalidInput) as refused:
        answers(tmp_path / "b.xlsx")
    wording(refused.value)
    with zipfile.ZipFile(tmp_path / "c.xlsx", "w") as bad:
        bad.writestr("xl/other.xml", "")
    with pytest.raises(InvalidInput) as refused:
        answers(tmp_path / "c.xlsx")
    wording(refused.value)


def test_a_workbook_that_is_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vlmevalkit, "MAX_WORKBOOK_BYTES", 10_000)
    with pytest.raises(InvalidInput, match=XLSX.name) as refused:
        answers(XLSX)
    assert refused.value.code == "too_large"


def test_entities_that_grow_are_not_resolved(tmp_path: Path, wording: Wording) -> None:
    doubled = "".join(f'<!ENTITY e{no} "{f"&e{no - 1};" * 10}">' for no in range(1, 10))
    bomb = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e0 "ha">{doubled}]>'
    with zipfile.ZipFile(XLSX) as good, zipfile.ZipFile(tmp_path / "a.xlsx", "w") as bad:
        for name in good.namelist():
            text = good.read(name).decode()
            if name == "xl/sharedStrings.xml":
                text = bomb + text.partition("?>")[2].replace("A. cat", "&e9;")
            bad.writestr(name, text)
    with pytest.raises(InvalidInput) as refused:
        answers(tmp_path / "a.xlsx")
    wording(refused.value)
