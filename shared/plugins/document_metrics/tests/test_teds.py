"""TEDS against PubTabNet's evaluation script, and its edit distance against apted alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from apted import APTED, Config
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein
from scoring_support import combined, measure, value_of

from vlmhyperbench_document_metrics.tables import Label, TableNode, read_table
from vlmhyperbench_document_metrics.teds import Teds
from vlmhyperbench_document_metrics.tree_edits import edit_distance

HEAD = "<thead><tr><td><b>Item</b></td><td>Price</td></tr></thead>"
TEA, MILK = "<tr><td>Tea</td><td>4.00</td></tr>", "<tr><td>Milk</td><td>8.50</td></tr>"
TABLE = f"<table>{HEAD}<tbody>{TEA}{MILK}</tbody></table>"
"""12 elements: head, body, 3 rows, 6 cells, and the bold one inside of a cell."""

LABELS = st.builds(Label, tag=st.sampled_from(["tr", "th", "b"])) | st.builds(
    Label,
    tag=st.just("td"),
    colspan=st.integers(1, 2),
    rowspan=st.just(1),
    content=st.lists(st.sampled_from(["a", "b", "<b>", "</b>"]), max_size=3).map(tuple),
)
LEAVES = st.builds(TableNode, label=LABELS)
NODES = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        TableNode, label=st.builds(Label, tag=st.sampled_from(["tr", "th"])), children=st.lists(inner).map(tuple)
    ),
    max_leaves=8,
)
TREES = st.builds(TableNode, label=st.just(Label(tag="table")), children=st.lists(NODES, max_size=5).map(tuple))


# Values of TEDS().evaluate in src/metric.py of ibm-aur-nlp/PubTabNet (commit 7b03ef8), run on these tables inside of
# <html><body>…</body></html>; structure_only=False, then True.
@pytest.mark.parametrize(
    ("said", "true", "whole", "structure"),
    [
        (TABLE, TABLE, 1.0, 1.0),
        (TABLE.replace("8.50", "8.60"), TABLE, 0.9791666666666666, 1.0),
        (TABLE.replace("<b>Item</b>", "Item"), TABLE, 0.9722222222222222, 1.0),
        (TABLE.replace(MILK, ""), TABLE, 0.75, 0.75),
        (f"<table><tr><td><b>Item</b></td><td>Price</td></tr>{TEA}{MILK}</table>", TABLE, 10 / 12, 10 / 12),
        (TABLE.replace("<td>Price</td>", ""), TABLE, 0.9166666666666666, 0.9166666666666666),
        (TABLE.replace("<td>Price", '<td colspan="2">Price'), TABLE, 0.9166666666666666, 0.9166666666666666),
        (TABLE.replace("<td>Price", '<td rowspan="2">Price'), TABLE, 0.9166666666666666, 0.9166666666666666),
        (TABLE.replace("<td>Price</td>", "<th>Price</th>"), TABLE, 0.9166666666666666, 0.9166666666666666),
        ("<table><tr><td>x</td></tr></table>", TABLE, 0.16666666666666663, 0.25),
        ("<table></table>", TABLE, 0.08333333333333337, 0.08333333333333337),
        ("The price is 4.00.", TABLE, 0.0, 0.0),
        (f"<div>{TABLE}</div>", TABLE, 0.0, 0.0),
        ("<table><tr><th>Item</th></tr></table>", "<table><tr><th>Price</th></tr></table>", 1.0, 1.0),
        ("<table><tr><td>a<!-- b -->c</td></tr></table>", "<table><tr><td>ac</td></tr></table>", 1.0, 1.0),
        (
            "<table><tr><td>&lt;b&gt;&nbsp;</td></tr></table>",
            "<table><tr><td><b> </b></td></tr></table>",
            0.6666666666666667,
            1.0,
        ),
        (
            "<table><tr><td>1<sup>st</sup> of<br>May</td></tr></table>",
            "<table><tr><td>1st of May</td></tr></table>",
            0.9230769230769231,
            1.0,
        ),
        # The script closes no <unk>, and leaves out what follows a cell inside of a cell.
        ("<table><tr><td>a<unk>b</td></tr></table>", "<table><tr><td>ab</td></tr></table>", 0.8888888888888888, 1.0),
        (
            "<table><tr><td><table><tr><td>n</td>m</tr></table></td></tr></table>",
            "<table><tr><td>n</td></tr></table>",
            0.8285714285714285,
            1.0,
        ),
    ],
)
def test_values_of_pubtabnets_script(said: str, true: str, whole: float, structure: float) -> None:
    assert value_of(Teds(), said, true) == pytest.approx(whole)
    assert value_of(Teds(profile="structure"), said, true) == pytest.approx(structure)


@pytest.mark.parametrize(
    "answer",
    [
        f"<!DOCTYPE html><html><head><title>t</title></head><body>{TABLE}</body></html>",
        f"<html><body>{TABLE}</body></html>",
        f"```html\n{TABLE}\n```",
        f"The table is:\n\n{TABLE}\n\nIt has three rows.",
        TABLE.upper().replace("ITEM", "Item").replace("PRICE", "Price").replace("TEA", "Tea").replace("MILK", "Milk"),
        TABLE.replace("</td>", "").replace("</tr>", ""),
        TABLE + "<table><tr><td>another</td></tr></table>",
        f"<?xml version='1.0' encoding='utf-16'?>{TABLE}",
    ],
)
def test_the_first_table_of_the_body_is_found_in_any_wrapping(answer: str) -> None:
    assert value_of(Teds(), answer, TABLE) == 1.0


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(true=TREES, said=TREES)
def test_what_is_left_out_as_equal_does_not_change_the_distance(true: TableNode, said: TableNode) -> None:
    assert edit_distance(true, said) == pytest.approx(APTED(true, said, _Script()).compute_edit_distance())


def test_more_edits_than_elements_are_worth_zero() -> None:
    deep, wide = "<table><th><b><i><u></u></i></b></th></table>", "<table><td></td><td></td><td></td><td></td></table>"
    own, other = read_table(deep, with_content=True), read_table(wide, with_content=True)
    assert own is not None
    assert other is not None
    assert (own.elements, other.elements, edit_distance(own.root, other.root)) == (4, 4, 7.0)
    assert value_of(Teds(), deep, wide) == 0.0


def test_two_tables_without_any_element_are_the_same() -> None:
    assert value_of(Teds(), "<table></table>", "<table> </table>") == 1.0


@pytest.mark.parametrize(("one", "other"), [("", "1"), ("2%", "1"), ("x", "1"), (" 2 ", "2"), ("9" * 5000, "1")])
def test_a_span_that_is_no_number_is_one(one: str, other: str) -> None:
    table = "<table><tr><td colspan='{}'>a</td></tr></table>"
    assert value_of(Teds(), table.format(one), table.format(other)) == 1.0


def test_a_reference_without_a_table_has_no_value_and_an_answer_without_one_is_zero() -> None:
    measures = measure(Teds(), [(TABLE, ["no table"]), (TABLE, []), ("", [TABLE]), ("", [""]), (TABLE, [TABLE, ""])])
    assert measures.values == [None, None, 0.0, None, None]
    assert measures.reasons == ["invalid_reference", "no_reference", None, "invalid_reference", "invalid_reference"]
    assert list(measures.statistics["without_table"]) == [0.0, 0.0, 1.0, 0.0, 0.0]


def test_the_best_reference_counts_and_a_group_is_the_mean() -> None:
    other = "<table><tr><td>x</td></tr></table>"
    measures = measure(Teds(), [(TABLE, [other, TABLE]), (TABLE.replace(MILK, ""), [TABLE])])
    assert measures.values == [1.0, 0.75]
    assert combined(Teds(), measures) == 0.875


def test_tables_that_differ_much_and_are_large_have_no_value() -> None:
    wide, other = ("<table>" + f"<tr>{f'<td>{text}</td>' * 8}</tr>" * 400 + "</table>" for text in ("a", "b"))
    long, longer = (f"<table><td>{text * 150_000}</td></table>" for text in "ab")
    tags = "<table><td>" + "".join(f"<t{no}></t{no}>" for no in range(1100)) + "</td></table>"
    measures = measure(Teds(), [(wide, [other]), (wide, [wide]), (long, [longer]), (tags, [TABLE]), (tags, [tags])])
    assert measures.reasons == ["too_large", None, "too_large", "too_large", None]


@pytest.mark.parametrize(
    "hostile",
    [
        "<!DOCTYPE html [<!ENTITY e SYSTEM 'file:///etc/hostname'>]><table><tr><td>&e;</td></tr></table>",
        "<table><tr><td>" * 50_000,
        "<table>" + "<th><div>" * 50_000,
        "<table><tr><td>\ud800\x00\x01\ufffe</td></tr></table>",
        "<table><tr><td>&#xD800;&#0;&#99999999;</td></tr></table>",
        "<table><tr><td colspan=-1 colspan=2>\u202e\u0301</td></tr></table>",
        "<table" * 100_000,
        "<" * 1_000_000,
        "&" * 1_000_000,
        "<frameset><table>",
        "<!--" + TABLE,
        "<script>" + TABLE,
    ],
)
def test_hostile_html_is_measured_and_equal_to_itself(hostile: str) -> None:
    value = value_of(Teds(), hostile, TABLE)
    assert value is not None
    assert 0.0 <= value < 1.0
    own = measure(Teds(), [(hostile, [hostile])])
    assert (own.values[0], own.reasons[0]) in [(1.0, None), (None, "invalid_reference")]


def test_an_entity_of_the_document_is_not_read_from_disk(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    answer = f"<!DOCTYPE html [<!ENTITY e SYSTEM '{secret.as_uri()}'>]><table><tr><td>&e;</td></tr></table>"
    assert value_of(Teds(), answer, "<table><tr><td>&amp;e;</td></tr></table>") == 1.0


class _Script(Config):
    """The costs of the script, on whole trees."""

    def rename(self, first: TableNode, second: TableNode) -> float:
        label, other_label = first.label, second.label
        if (label.tag, label.colspan, label.rowspan) != (other_label.tag, other_label.colspan, other_label.rowspan):
            return 1.0
        return Levenshtein.normalized_distance(label.content, other_label.content)
