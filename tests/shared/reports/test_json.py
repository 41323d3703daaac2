"""A report that was written as JSON is read again whole; anything else is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shared.reports.builders import PAGES, comparison_of, document_of, evidence, fact, thumbnail
from tests.support.wording import Wording
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


@pytest.mark.parametrize("document", [RUN, COMPARISON, replace(RUN, finished_at=None, headline=(), runs={})])
def test_a_report_that_is_read_again_is_written_byte_by_byte_as_the_original(document: Document) -> None:
    again = from_json(to_json(document))
    assert again == document
    assert _written(again) == _written(document)


def test_integers_and_fractions_stay_what_they_are() -> None:
    table = Table(name="t", title="", columns=tuple(Column(title=name) for name in "abc"), rows=((1, 1.0, None),))
    document = replace(RUN, sections=(Section(name="s", title="", lead="", blocks=(table,)),))
    (block,) = from_json(to_json(document)).sections[0].blocks
    assert isinstance(block, Table)
    assert [type(cell) for cell in block.rows[0]] == [int, float, type(None)]


Change = Callable[[dict[str, Any], object], None]


def _at(*path: str | int) -> Change:
    def change(report: dict[str, Any], value: object) -> None:
        part: Any = report
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = value

    return change


def _changed(change: Change, value: object) -> bytes:
    report = json.loads(WRITTEN)
    change(report, value)
    return json.dumps(report).encode()


TABLE, FIGURE = ("sections", 0, "blocks", 0), ("sections", 2, "blocks", 1)


@pytest.mark.parametrize(
    ("change", "value", "location"),
    [
        (_at("extra"), 1, "'extra'"),
        (_at("tone"), "loud", "report.tone"),
        (_at("scope"), 1, "report.scope"),
        (_at("id"), 3, "report.id"),
        (_at("finished_at"), 3, "report.finished_at"),
        (_at("verdict"), ["one"], "report.verdict"),
        (_at("verdict"), "one", "report.verdict"),
        (_at("tiles", 0), [], "report.tiles[0]"),
        (_at("tiles", 0), {"label": "l", "value": "v"}, "'detail'"),
        (_at("headline"), [], "headline"),
        (_at("headline"), {}, "'rows'"),
        (_at("headline", "rows", 0), 1, "headline.rows[0]"),
        (_at("runs"), [], "runs"),
        (_at("runs", "a"), 1, "runs.a"),
        (_at("sections"), {}, "report.sections"),
        (_at(*TABLE, "type"), "script", "sections[0].blocks[0].type"),
        (_at(*TABLE), 1, "sections[0].blocks[0]"),
        (_at(*TABLE, "is_collapsed"), 1, "sections[0].blocks[0].is_collapsed"),
        (_at(*TABLE, "rows", 0), ["one"], "sections[0].blocks[0]: "),
        (_at(*TABLE, "rows", 0, 0), True, "rows[0][0]"),
        (_at(*TABLE, "rows", 0, 1, "digits"), 400, "rows[0][1]: "),
        (_at(*TABLE, "rows", 0, 1, "digits"), 1.5, "rows[0][1].digits"),
        (_at(*TABLE, "rows", 0, 1, "scale"), [1, 1], "rows[0][1]: "),
        (_at(*TABLE, "rows", 0, 1, "value"), 2**63, "rows[0][1].value"),
        (_at(*FIGURE, "name"), "../figure", "'../figure'"),
        (_at(*FIGURE, "kind"), "pie", "sections[2].blocks[1].kind"),
        (_at(*FIGURE, "series", 0, "y", 0), 7, "sections[2].blocks[1]: "),
        (_at(*FIGURE, "series", 0, "x", 0), 1e300, "sections[2].blocks[1]: "),
        (_at(*FIGURE, "series", 0, "tone"), "loud", "series[0].tone"),
        (_at(*FIGURE, "series", 0, "y", 0), "0", "series[0].y[0]"),
    ],
)
def test_a_garbled_report_is_refused_with_the_location(change: Change, value: object, location: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(location)):
        from_json(_changed(change, value))


@pytest.mark.parametrize(
    ("change", "value"),
    [
        (_at("schema"), "vlmhb/report/v0"),
        (_at("schema"), None),
        (_at("id"), "../../etc"),
        (_at("sections", 0, "blocks"), [json.loads(WRITTEN)["sections"][2]["blocks"][1]] * 2),
        (_at(*TABLE, "rows", 0), ["one"]),
        (_at(*TABLE, "rows", 0, 1, "digits"), 400),
        (_at(*TABLE, "rows", 0, 1, "scale"), [1, 1]),
    ],
    ids=["old schema", "no schema", "id of another folder", "two figures of one name", "row", "digits", "scale"],
)
def test_a_report_with_values_that_cannot_be_shown_is_refused(change: Change, value: object, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        from_json(_changed(change, value))
    wording(refused.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[]", b"null", b"{", WRITTEN[:-3], b'{"a":' * 90 + b"1" + b"}" * 90, b'{"schema": NaN}'],
)
def test_content_that_is_no_json_object_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"^The report"):
        from_json(content)


def test_an_image_that_would_be_a_file_in_another_folder_is_refused() -> None:
    report = WRITTEN.replace(PAGES[0].encode(), b"../../../../secret")
    with pytest.raises(InvalidInput, match=r"'\.\./\.\./\.\./\.\./secret'.* SHA-256"):
        from_json(report)


SMALL = Document(
    scope="run",
    id="id",
    title="t",
    subtitle="",
    state="done",
    tone="good",
    finished_at=None,
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
    runs={},
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
def test_a_report_with_any_change_is_refused_or_written(data: st.DataObject) -> None:
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
