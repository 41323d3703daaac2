"""A report that was written as JSON is read again whole, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shared.reports.builders import PAGES, comparison_of, document_of, evidence, fact, thumbnail
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.reports.document import Column, Document, Estimate, Facts, Listing, Points, Section, Table, Tile
from vlmhyperbench.reports.writers.html import to_html
from vlmhyperbench.reports.writers.json import from_json, to_json
from vlmhyperbench.reports.writers.markdown import markdown_files
from vlmhyperbench.reports.writers.plots import to_svg

ROWS = [fact(0, "yes", "yes"), fact(1, "no\r\n</script>\u2028", "yes"), fact(2, "", "yes"), fact(3, "yez", "yes")]
RUN = document_of(evidence(ROWS))
COMPARISON = comparison_of(
    "e", "demo", "DONE", [evidence(ROWS, name="a", id="a"), evidence(name="b", id="b"), evidence([], name="c", id="c")]
)
WRITTEN = to_json(COMPARISON)


def _written(document: Document) -> list[bytes]:
    """Every format, with a picture of one page."""
    drawings = {figure.name: to_svg(figure) for figure in document.figures}
    thumbnails = {PAGES[0]: thumbnail()}
    page = to_html(document, drawings=drawings, thumbnails=thumbnails)
    return [page, to_json(document), *markdown_files(document, drawings=drawings, thumbnails=thumbnails).values()]


@pytest.mark.parametrize("document", [RUN, COMPARISON, replace(RUN, finished_at="", headline=(), data={})])
def test_what_is_read_is_written_byte_by_byte_as_the_original(document: Document) -> None:
    again = from_json(to_json(document))
    assert again == document
    assert _written(again) == _written(document)


def test_numbers_stay_integers_or_fractions_as_they_were_written() -> None:
    table = Table(name="t", title="", columns=tuple(Column(title=name) for name in "abc"), rows=((1, 1.0, None),))
    document = replace(RUN, sections=(Section(name="s", title="", lead="", blocks=(table,)),))
    (block,) = from_json(to_json(document)).sections[0].blocks
    assert isinstance(block, Table)
    assert [type(cell) for cell in block.rows[0]] == [int, float, type(None)]


def _at(*place: str | int) -> Callable[[dict[str, Any], object], None]:
    def change(report: dict[str, Any], value: object) -> None:
        part: Any = report
        for key in place[:-1]:
            part = part[key]
        part[place[-1]] = value

    return change


TABLE, FIGURE = ("sections", 0, "blocks", 0), ("sections", 2, "blocks", 1)


@pytest.mark.parametrize(
    ("change", "value", "said"),
    [
        (_at("schema"), "vlmhb/report/v0", "schema is 'vlmhb/report/v0'; this version reads 'vlmhb/report/v1'"),
        (_at("schema"), None, "schema is 'None'"),
        (_at("extra"), 1, "report holds 'extra', which this version does not know"),
        (_at("tone"), "loud", r"report\.tone is none of good, bad, neutral"),
        (_at("scope"), 1, r"report\.scope is none of run, experiment"),
        (_at("id"), "../../etc", "The report's id is '../../etc', which is none"),
        (_at("id"), 3, r"report\.id is not text"),
        (_at("finished_at"), 3, r"report\.finished_at is nothing that can stand there"),
        (_at("verdict"), ["one"], r"report\.verdict has 1 entries instead of 3"),
        (_at("verdict"), "one", r"report\.verdict is no list"),
        (_at("tiles", 0), [], r"report\.tiles\[0\] is no object"),
        (_at("tiles", 0), {"label": "l", "value": "v"}, r"report\.tiles\[0\] lacks 'detail'"),
        (_at("headline"), [], "headline is no object"),
        (_at("headline"), {}, r"headline\.rows is no list"),
        (_at("headline", "rows", 0), 1, r"headline\.rows\[0\] is no object"),
        (_at("runs"), [], "runs is no object"),
        (_at("runs", "a"), 1, r"runs\.a is no object"),
        (_at("sections"), {}, r"report\.sections is no list"),
        (_at(*TABLE, "type"), "script", r"sections\[0\]\.blocks\[0\]\.type is none of table, figure, facts"),
        (_at(*TABLE), 1, r"sections\[0\]\.blocks\[0\] is nothing that can stand there"),
        (_at(*TABLE, "is_collapsed"), 1, r"is_collapsed is not true or false"),
        (_at(*TABLE, "rows", 0), ["one"], r"blocks\[0\]: A row of the table 'headline' does not fit its columns"),
        (_at(*TABLE, "rows", 0, 0), True, r"rows\[0\]\[0\] is nothing that can stand there"),
        (_at(*TABLE, "rows", 0, 1, "digits"), 400, r"rows\[0\]\[1\]: A value cannot be written with 400 decimals"),
        (_at(*TABLE, "rows", 0, 1, "digits"), 1.5, r"rows\[0\]\[1\]\.digits is not an integer"),
        (_at(*TABLE, "rows", 0, 1, "scale"), [1, 1], "The scale of a value does not ascend"),
        (_at(*TABLE, "rows", 0, 1, "value"), 2**63, r"\.value is nothing that can stand there"),
        (_at(*FIGURE, "name"), "../figure", "'../figure' cannot be drawn: its name is no slug"),
        (_at(*FIGURE, "kind"), "pie", r"kind is none of interval, curve"),
        (_at(*FIGURE, "series", 0, "y", 0), 7, "a row that does not exist"),
        (_at(*FIGURE, "series", 0, "x", 0), 1e300, "a number is not between"),
        (_at(*FIGURE, "series", 0, "tone"), "loud", r"series\[0\]\.tone is nothing that can stand there"),
        (_at(*FIGURE, "series", 0, "y", 0), "0", r"series\[0\]\.y\[0\] is not a number"),
        (
            _at("sections", 0, "blocks"),
            [json.loads(WRITTEN)["sections"][2]["blocks"][1]] * 2,
            "3 figures have the name",
        ),
    ],
)
def test_a_garbled_report_is_refused_with_the_place(
    change: Callable[[dict[str, Any], object], None], value: object, said: str
) -> None:
    report = json.loads(WRITTEN)
    change(report, value)
    with pytest.raises(InvalidInput, match=said):
        from_json(json.dumps(report).encode())


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[]", b"null", b"{", WRITTEN[:-3], b'{"a":' * 90 + b"1" + b"}" * 90, b'{"schema": NaN}'],
)
def test_what_is_no_json_object_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"^The report"):
        from_json(content)


def test_an_image_that_would_be_a_file_elsewhere_is_refused() -> None:
    report = WRITTEN.replace(PAGES[0].encode(), b"../../../../secret")
    with pytest.raises(InvalidInput, match=r"A case shows '\.\./\.\./\.\./\.\./secret', which is no SHA-256"):
        from_json(report)


SMALL = Document(
    scope="run",
    id="id",
    title="t",
    subtitle="",
    state="done",
    tone="good",
    finished_at="",
    verdict=("a", "b", "c"),
    tiles=(Tile(label="l", value="v", detail=""),),
    sections=(
        Section(
            name="s",
            title="",
            lead="",
            blocks=(
                Table(
                    name="t",
                    title="",
                    columns=(Column(title="a"),),
                    rows=((Estimate(value=0.5, low=0.4, high=0.6, scale=(0, 1)),), (3,)),
                ),
                *{figure.kind: figure for figure in (*RUN.figures, *COMPARISON.figures)}.values(),
                *(block for block in RUN.sections[2].blocks[1:]),
                Facts(title="", items=(("a", "b"),)),
                Listing(title="", text="x"),
                Points(title="", items=("x",)),
            ),
        ),
    ),
    headline=(),
    data={},
)

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=3),
    st.just([]),
    st.just({}),
)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_whatever_is_changed_in_a_report_it_is_refused_or_written(data: st.DataObject) -> None:
    report = json.loads(to_json(SMALL))
    part, key = report, data.draw(st.sampled_from(sorted(report)))
    while isinstance(part[key], dict | list) and part[key] and data.draw(st.booleans()):
        part = part[key]
        key = data.draw(st.sampled_from(sorted(part) if isinstance(part, dict) else range(len(part))))
    part[key] = data.draw(VALUES)
    try:
        document = from_json(json.dumps(report).encode())
    except InvalidInput:
        return
    assert len(_written(document)) >= 3
