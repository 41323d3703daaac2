"""OmniDocBench by the rules of lmms-eval, with values counted by hand; the fixture is compared with its code."""

from __future__ import annotations

import json
import math

import pytest

from vlmhyperbench_document_metrics.omnidocbench import OmniDocBench
from vlmhyperbench_document_metrics.page_elements import read_annotation, read_markdown

TABLE = "<table><tr><td>a</td><td>b</td></tr></table>"


def _page(*elements: tuple[str, str], joined: tuple[int, int] | None = None) -> str:
    keys = {"table": "html", "equation_isolated": "latex"}
    relation = (
        {"relation_type": "truncated", "source_anno_id": joined[0], "target_anno_id": joined[1]} if joined else {}
    )
    return json.dumps(
        {
            "layout_dets": [
                {"category_type": kind, "order": number, "anno_id": number, keys.get(kind, "text"): content}
                for number, (kind, content) in enumerate(elements)
            ],
            "extra": {"relation": [relation]},
        }
    )


def _value(profile: str, answer: str, page: str) -> float | None:
    return OmniDocBench(profile=profile).measure([answer], [[page]]).values[0]


def test_markdown_is_cut_into_texts_formulas_and_tables() -> None:
    tables = f"{TABLE}\n|h|i|\n|-|:-:|\n|1|2|\n\n|no|table|"
    answer = f"```markdown\n# Title\n\nNo. #7 of C#\n\na $x$ b\n$$\ny\n$$\n\\[z\\]\n{tables}\n$$open\n```"
    page = read_markdown(answer)
    assert page.text == ["Title", "No. #7 of C#", "a x b", "|no|table|", "$$open"]
    assert page.formula == ["y", "z"]
    assert page.table == [
        TABLE,
        "<table><thead><tr><th>h</th><th>i</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table>",
    ]


def test_parts_of_one_element_are_joined_in_their_order() -> None:
    page = read_annotation(_page(("text_block", "begin"), ("figure", ""), ("text_block", "end"), joined=(2, 0)))
    assert page is not None
    assert page.text == ["begin end"]


def test_elements_are_matched_in_any_order_and_a_missing_one_costs_its_length() -> None:
    page = _page(("title", "One"), ("text_block", "two words."), ("footer", "gone"))
    assert _value("text", "Two-words\n\n## one\n\nof no use at all", page) == 4 / (3 + 9 + 4)
    assert _value("text", "", page) == 1.0


def test_elements_too_far_apart_are_no_pair() -> None:
    page = _page(("text_block", "abcdefghij"))
    assert [_value("text", answer, page) for answer in ("abcxxxxxxx", "abxxxxxxxx")] == [0.7, 1.0]


def test_styles_and_spacing_of_a_formula_do_not_count() -> None:
    page = _page(("equation_isolated", "\\begin{aligned} \\mathbf{v} \\, = 1 \\tag{3} \\end{aligned}"))
    assert [_value("formula", answer, page) for answer in ("$$V = 1$$", "\\[v = 2\\]", "v = 1")] == [0.0, 0.2, 1.0]


def test_a_table_without_a_partner_is_zero() -> None:
    page = _page(("table", TABLE), ("table", "<table><tr><td>other</td></tr></table>"))
    assert _value("table", f"text\n{TABLE.upper()}", page) == pytest.approx((1 - 2 / 3) / 2)
    assert _value("table", f"{TABLE}", page) == 0.5


def test_a_group_pools_elements_and_leaves_pages_without_any_out() -> None:
    metric = OmniDocBench(profile="table")
    pages = [_page(("table", TABLE), ("table", TABLE)), _page(("table", TABLE)), _page(("title", "none"))]
    measures = metric.measure([f"{TABLE} {TABLE}", "", TABLE], [[page] for page in pages])
    assert (measures.values, measures.reasons[2]) == ([1.0, 0.0, None], "no_element")
    sums = {name: math.fsum(column) for name, column in measures.statistics.items()}
    assert metric.combine(sums) == 2 / 3


@pytest.mark.parametrize("reference", ["a page", "[]", "{}", '{"layout_dets": 7}'])
def test_a_reference_that_is_no_page_is_unscored(reference: str) -> None:
    assert OmniDocBench().measure(["a"], [[reference]]).reasons == ["invalid_reference"]


@pytest.mark.parametrize("opener", ["<table>", "\\[", "$$", "\\text{", "|a|\n|-|\n", "$"])
def test_marks_that_nobody_closes_take_time_in_proportion(opener: str) -> None:
    """A search that grows with the square of the length takes hours here."""
    read_markdown(opener * 100_000)
    assert _value("formula", f"\\[{opener * 20_000}\\]", _page(("equation_isolated", "x"))) == 1.0
