"""HTML, Markdown and JSON: complete, self-contained, and harmless for any answer of a model."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from tests.shared.reports.builders import PAGES, comparison_of, document_of, evidence, fact, thumbnail
from vlmhyperbench.analysis.figures import Axis, bars_figure
from vlmhyperbench.registry.plugins import BUILT_IN_REPORTS
from vlmhyperbench.reports.document import (
    Case,
    Cases,
    Column,
    Document,
    Estimate,
    Facts,
    Listing,
    Points,
    Prediction,
    Section,
    Span,
    Table,
    Tile,
)
from vlmhyperbench.reports.sections.sample_table import MAX_BYTES as MAX_SAMPLE_BYTES
from vlmhyperbench.reports.writers.formats import WRITERS
from vlmhyperbench.reports.writers.html import MAX_BYTES, embed, to_html
from vlmhyperbench.reports.writers.json import to_json
from vlmhyperbench.reports.writers.markdown import escape, image_name, to_markdown
from vlmhyperbench.reports.writers.plots import to_plotly, to_svg
from vlmhyperbench.reports.writers.thumbnails import MAX_TOTAL_BYTES, Thumbnail

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> | `x` **b** [l](http://evil) {{ 7*7 }} $m$"


class _Parsed(HTMLParser):
    """Collects the tags and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in {"script", "style"}:
            self.scripts.append(data)


def test_the_built_in_formats_of_the_registry_are_those_that_are_written() -> None:
    assert {*WRITERS, "csv"} == BUILT_IN_REPORTS


def _html(document: Document, thumbnails: dict[str, Thumbnail] | None = None) -> str:
    drawings = {figure.name: to_svg(figure) for figure in document.figures}
    return to_html(document, drawings=drawings, thumbnails=thumbnails or {}).decode()


def _document(*blocks: Table | Cases | Facts | Listing | Points, finished_at: str | None = None) -> Document:
    return Document(
        scope="run",
        id="id",
        title=HOSTILE,
        subtitle=HOSTILE,
        state="done",
        tone="good",
        finished_at=finished_at,
        verdict=(HOSTILE, HOSTILE, HOSTILE),
        tiles=(Tile(label=HOSTILE, value=HOSTILE, detail=HOSTILE),),
        sections=(Section(name="s", title=HOSTILE, lead=HOSTILE, blocks=blocks),),
        headline=({"name": HOSTILE},),
        runs={"id": {"name": HOSTILE}},
    )


EVERYTHING = _document(
    Table(
        name="t",
        title=HOSTILE,
        columns=(Column(title=HOSTILE, kind="code"), Column(title="v", kind="estimate")),
        rows=((HOSTILE, Estimate(value=0.5, low=0.4, high=0.6, scale=(-1, 1))),),
        note=HOSTILE,
    ),
    Table(name="u", title="", columns=(Column(title="a"),), rows=((Estimate(value=None, scale=(0, 1)),), (3,))),
    Facts(title=HOSTILE, items=((HOSTILE, HOSTILE),)),
    Listing(title=HOSTILE, text="```\n" + HOSTILE),
    Points(title=HOSTILE, items=(HOSTILE,)),
    Cases(
        name="c",
        title=HOSTILE,
        note=HOSTILE,
        items=(
            Case(
                key=HOSTILE,
                tags=(HOSTILE,),
                images=(PAGES[0], PAGES[1]),
                question=HOSTILE,
                references=(HOSTILE, "`quoted`"),
                answers=(
                    Prediction(
                        run=HOSTILE,
                        spans=(
                            Span(text=HOSTILE, kind="same"),
                            Span(text=HOSTILE, kind="missing"),
                            Span(text=HOSTILE, kind="extra"),
                        ),
                        tone="bad",
                        score=HOSTILE,
                        note=HOSTILE,
                    ),
                    Prediction(run="", spans=(), tone="bad", score=""),
                ),
                kind=HOSTILE,
                tone="bad",
            ),
            Case(key="k", tags=(), images=(), question="?", references=(), answers=(), kind="x", tone="good"),
        ),
    ),
    finished_at="2026-01-01T00:00:00Z",
)


def test_a_nul_in_an_answer_is_replaced_in_text_files() -> None:
    document = _document(Listing(title="an answer", text="a\0b"))
    assert b"\0" not in to_markdown(document, images=())
    assert "\0" not in _html(document)
    assert "a\N{REPLACEMENT CHARACTER}b" in _html(document)


def _policy(page: str) -> dict[str, set[str]]:
    content = next(
        attributes["content"]
        for tag, attributes in _Parsed(page).tags
        if "content-security-policy" in str(attributes).lower()
    )
    return {rule.split()[0]: set(rule.split()[1:]) for rule in str(content).split(";")}


def _hash(content: bytes) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}'"


def test_the_page_allows_its_style_and_two_scripts_by_their_hashes_and_no_request() -> None:
    page = _html(document_of(evidence()))
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    (packed,) = re.findall(r'<script type="application/gzip" id="library"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert _policy(page) == {
        "default-src": {"'none'"},
        "img-src": {"data:"},
        "style-src": {_hash(style.encode()), _hash(b"")},
        "script-src": {_hash(script.encode()), _hash(gzip.decompress(base64.b64decode(packed)))},
        "base-uri": {"'none'"},
        "form-action": {"'none'"},
    }


def test_the_page_holds_the_data_to_explore_every_figure() -> None:
    document = document_of(evidence())
    page = _html(document)
    embedded = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert embedded is not None
    data = json.loads(embedded[1])
    assert data["figures"] == {figure.name: to_plotly(figure) for figure in document.figures}
    assert data["dark"]["#2462c2"] == "#6ea4ff"
    assert data["dark"]["36,98,194"] == "110,164,255"
    buttons = [attributes for tag, attributes in _Parsed(page).tags if attributes.get("class") == "explore"]
    assert [button["aria-label"] for button in buttons] == [f"Explore: {figure.title}" for figure in document.figures]
    assert buttons
    assert all("hidden" in button for button in buttons), "without the script there is nothing to press"


def test_the_page_loads_nothing_and_styles_nothing_inline() -> None:
    page = _html(document_of(evidence([fact(0, "no", "yes")])), {PAGES[0]: thumbnail()})
    for tag, attributes in _Parsed(page).tags:
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href", "xlink:href", "action"):
            value = attributes.get(name) or ""
            assert value.startswith(("#", "data:image/webp;base64,")) or not value, (tag, value)


def test_answers_stay_text_in_the_page() -> None:
    page = _html(EVERYTHING, {PAGES[0]: thumbnail()})
    parsed = _Parsed(page)
    assert [tag for tag, _ in parsed.tags].count("script") == 5
    assert "onerror" not in {name for _, attributes in parsed.tags for name in attributes}
    assert "{{ 7*7 }}" in page


def test_the_embedded_data_survives_as_json() -> None:
    page = _html(EVERYTHING)
    embedded = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert embedded is not None
    assert json.loads(embedded[1])["headline"] == [{"name": HOSTILE}]
    assert json.loads(embed({"a": "<>&\u2028\u2029"})) == {"a": "<>&\u2028\u2029"}


def test_a_page_of_a_case_is_shown_or_named() -> None:
    page = _html(EVERYTHING, {PAGES[0]: thumbnail()})
    assert page.count('class="page"') == 1
    assert page.count('class="nopage"') == 1
    assert 'class="crisp"' in page


def test_the_page_fits_its_budget_with_every_image_and_sample_it_may_have() -> None:
    page = len(_html(document_of(evidence())))
    packed = MAX_SAMPLE_BYTES * 4 / 3, MAX_TOTAL_BYTES * 4 / 3
    assert page + sum(packed) < MAX_BYTES, "base 64 takes a third more, even where nothing can be compressed"


def test_a_page_that_two_cases_show_is_in_the_file_once() -> None:
    page = _html(document_of(evidence([fact(i, "no", "yes") for i in range(2)])), {PAGES[0]: thumbnail()})
    assert page.count(thumbnail().data_url) == 1
    assert page.count("<img data-again") == 1


def test_intervals_are_drawn_on_their_scale() -> None:
    page = _html(EVERYTHING)
    assert '<line class="ci-span" x1="70.0" x2="80.0"' in page
    assert 'class="ci-zero" x1="50.0"' in page


def test_the_same_document_gives_the_same_bytes() -> None:
    first, second = document_of(evidence()), document_of(evidence())
    assert _html(first) == _html(second)
    assert to_json(first) == to_json(second)
    assert to_markdown(first, images=()) == to_markdown(second, images=())


def test_json_is_complete_and_has_the_headline_and_plotly_figures() -> None:
    report = json.loads(to_json(document_of(evidence())))
    assert report["headline"]["rows"][0]["metrics"]["exact_match"]["n"] == 5
    assert report["figures"]["latency"]["data"][0]["type"] == "scatter"
    kinds = {block["type"] for section in report["sections"] for block in section["blocks"]}
    assert kinds == {"table", "figure", "facts", "listing", "points", "cases", "sampletable"}
    (run,) = report["runs"].values()
    assert run["counts"]["infrastructure_failures"] == 1
    assert run["spec"]["task"] == "document-qa"


def test_markdown_refers_to_figures_and_pages_in_its_folder() -> None:
    document = document_of(evidence([fact(i, "no", "yes") for i in range(4)]))
    text = to_markdown(document, images={PAGES[0]}).decode()
    assert "](latency.svg)" in text
    assert text.count(f"]({image_name(PAGES[0])})") == 2
    assert image_name(PAGES[1]) not in text


def test_answers_stay_text_in_markdown() -> None:
    text = to_markdown(EVERYTHING, images={PAGES[0]}).decode()
    outside_code = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text, flags=re.DOTALL)
    assert "<script" not in outside_code
    assert "<img" not in outside_code
    assert "[l](" not in outside_code
    table = next(line for line in text.splitlines() if "0.500 (0.400 to 0.600)" in line)
    assert len(re.findall(r"(?<!\\)\|", table)) == 3
    assert "````text\n```\n" in text


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("a_b*c", r"a\_b\*c"),
        ("- x", r"\- x"),
        ("1. x", r"1\. x"),
        ("a\nb", "a b"),
        ("<b>&", "&lt;b>&amp;"),
        ("=x", r"\=x"),
        ("0.5 and -1", "0.5 and -1"),
        ("a|[b](c)", r"a\|\[b\](c)"),
    ],
)
def test_markup_is_escaped_in_markdown(text: str, safe: str) -> None:
    assert escape(text) == safe


def test_a_comparison_is_written_in_every_format() -> None:
    document = comparison_of("e", "demo", "DONE", [evidence(name="a", id="a"), evidence(name="b", id="b")])
    html, markdown = _html(document), to_markdown(document, images=()).decode()
    for section in document.sections:
        assert f'<section id="{section.name}"' in html
        assert f"## {section.title}" in markdown
    assert len(json.loads(to_json(document))["headline"]["rows"]) == 2


def test_a_figure_without_a_note_has_no_empty_paragraph() -> None:
    figure = bars_figure("f", "F", axis=Axis(title="n"), groups="g", series={"a": {"x": 1}})
    document = Document(
        **{
            **{name: getattr(EVERYTHING, name) for name in EVERYTHING.__dataclass_fields__},
            "sections": (Section(name="s", title="S", lead="", blocks=(figure,)),),
        }
    )
    assert '<p class="note"></p>' not in _html(document)
    assert "**" not in to_markdown(document, images=()).decode().split("## S")[1]
