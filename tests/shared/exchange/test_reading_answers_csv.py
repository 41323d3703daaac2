"""Our own answers.csv: what our writer writes is read again, and rows of text tables keep their cells."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shared.exchange.reading import answers, taken, write
from tests.support.wording import Wording
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.answers_csv import DISARMED, KNOWN
from vlmhyperbench.exchange.lines import rows_of
from vlmhyperbench.reports.writers import tables

HEADER = ";".join(tables.ANSWERS)
_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["=1+1", "@a", "\t=1", "\u200b=", "＝1", '"', ";", "\r\n", "'", "a'=b", " =1", "-5", "'=", "''=", "'''@", "'", "'x"]
)


def test_the_columns_and_the_pattern_are_those_of_the_writer() -> None:
    assert set(tables.ANSWERS) == KNOWN
    assert tables._FORMULA.replace("^", "^'") == DISARMED


@given(
    st.lists(st.tuples(_text.filter(lambda answer: answer.strip("\r\n\0")), st.none() | _text), min_size=1, max_size=5)
)
@settings(deadline=None, max_examples=100)
def test_what_our_writer_disarms_is_armed_again(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str | None]]
) -> None:
    """Keys are numbered, so that none repeats."""
    texts = [text for _, text in rows]
    frame = polars.DataFrame(
        {"id": [f"k{no}" for no in range(len(rows))], "model_answer": texts, "error": [error for error, _ in rows]},
        schema={"id": polars.String, "model_answer": polars.String, "error": polars.String},
    )
    path = tmp_path_factory.mktemp("csv") / "answers.csv"
    path.write_bytes(b"id;model_answer;error\n" + tables.csv_rows(frame))
    found = answers(path)
    assert [answer.text for answer in found] == texts
    assert [answer.key for answer in found] == [f"k{no}" for no in range(len(rows))]


def test_every_column_is_read(tmp_path: Path) -> None:
    rows = '1;"blue; ""dark""\nor so";ok;stop;;1;20;2;250.5;1;2;;;ab;2026-01-01;\n2;;error;;timeout;3;;;;;;;;;;1\n'
    file, (answer, two) = taken(write(tmp_path / "answers.csv", f"\ufeff{HEADER}\n{rows}"))
    assert (file.format, file.model, file.notes) == ("answers-csv", None, [])
    assert (answer.text, answer.error, answer.finish_reason) == ('blue; "dark"\nor so', None, "stop")
    assert (answer.prompt_tokens, answer.completion_tokens, answer.latency_ms) == (20, 2, 250.5)
    assert (two.text, two.error, two.prompt_tokens, two.latency_ms) == (None, "timeout", None, None)
    assert (answer.repeat, two.repeat) == (0, 1)
    assert (answer.location, two.location) == (f"{tmp_path}/answers.csv:2", f"{tmp_path}/answers.csv:4")


def test_an_empty_text_is_an_answer_and_an_empty_cell_is_none(tmp_path: Path, wording: Wording) -> None:
    path = write(tmp_path / "answers.csv", 'id;model_answer;status\na;"";ok\nb;;quarantined\nc;;\nd;half an;error\n')
    first, *failed = answers(path)
    assert (first.text, first.error) == ("", None)
    assert [answer.text for answer in failed] == [None] * 3
    wording("\n".join(str(answer.error) for answer in failed))


def test_removed_apostrophes_are_counted(tmp_path: Path, wording: Wording) -> None:
    file, found = taken(write(tmp_path / "answers.csv", "id;model_answer\n'=1;'-x\nb;'y\n"))
    assert [(answer.key, answer.text) for answer in found] == [("=1", "-x"), ("b", "'y")]
    wording("\n".join(file.notes))


@pytest.mark.parametrize(
    "text",
    [
        "id;answer\n",
        "id;model_answer;id\n",
        "id;model_answer\na;b;c\n",
        "id;model_answer\n;b\n",
        'id;model_answer\na;"b\nc;d\n',
        "id;model_answer;latency_ms\na;b;fast\n",
        "id;model_answer;latency_ms\na;b;-1\n",
        "id;model_answer;prompt_tokens\na;b;1.5\n",
        "id;model_answer\na;b\na;c\n",
        "id;model_answer\n",
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_its_line(tmp_path: Path, text: str, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        answers(write(tmp_path / "answers.csv", text), "answers-csv")
    wording(refused.value)


@given(st.lists(st.lists(_text, min_size=2, max_size=3), min_size=1, max_size=4), st.sampled_from("\t,;"))
@settings(deadline=None)
def test_rows_are_those_of_pythons_own_reader(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], delimiter: str
) -> None:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    path = write(tmp_path_factory.mktemp("rows") / "a", out.getvalue())
    assert [cells for _, cells in rows_of(path, delimiter)] == rows
