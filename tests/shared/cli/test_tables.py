"""Cells with line breaks and tabs do not break a table, on a terminal or in a pipe."""

from __future__ import annotations

import sys

import pytest

from vlmhyperbench.cli.output import table

ODD = "two\nlines\tand\r\na tab\u2028 [/b][red]x"
ON_ONE_LINE = "two lines and a tab [/b][red]x"


def test_a_row_is_a_line_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    table(["key", "answer"], [["a", ODD], ["b\n", None]])
    assert capsys.readouterr().out.splitlines() == [
        "key\tanswer",
        f"a\t{ON_ONE_LINE}",
        "b\t–",
    ]


def test_a_row_is_a_row_on_a_terminal_and_markup_is_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    table(["[key]", "answer"], [["a", ODD], ["b", "x"]])
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip(" ─")]
    assert lines == [["[key]", "answer"], ["a", *ON_ONE_LINE.split()], ["b", "x"]]
