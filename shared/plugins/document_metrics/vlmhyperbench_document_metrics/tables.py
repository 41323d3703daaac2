"""Read the first table of an HTML text as the tree that TEDS compares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lxml import etree, html

_UNREADABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What a node is compared by; two nodes with the same label are the same."""

    tag: str
    colspan: int | None = None
    """Of a `td`; None for every other tag."""
    rowspan: int | None = None
    content: tuple[str, ...] = ()
    """Of a `td`: its characters, and the tags inside of it as `<b>` and `</b>`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNode:
    """An element of a table. What is inside of a `td` is its content, not its children."""

    label: Label
    children: tuple[TableNode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table as a tree, and how many elements it has."""

    root: TableNode
    elements: int
    """Elements below the `table` itself, those inside of cells too: what an edit distance is divided by."""


def read_table(text: str, *, with_content: bool) -> Table | None:
    """Return the first table that stands directly in the body; None where there is none.

    Text without `<html>` and `<body>` is read as what stands in a body. Comments and processing instructions are left
    out. Nothing is fetched, no entity but HTML's own is known, and no text raises.

    Args:
        text: HTML, or anything else.
        with_content: whether cells keep what is inside of them.
    """
    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True)
    try:
        document = html.document_fromstring(_UNREADABLE.sub("\ufffd", text).encode(), parser=parser)
    except etree.LxmlError:
        return None
    table = next(iter(document.iterfind("body/table")), None)
    if table is None:
        return None
    elements = sum(1 for _ in table.iterdescendants())
    return Table(root=_node(table, with_content=with_content), elements=elements)


def _node(element: html.HtmlElement, *, with_content: bool) -> TableNode:
    if element.tag != "td":
        children = tuple(_node(child, with_content=with_content) for child in element)
        return TableNode(label=Label(tag=str(element.tag)), children=children)
    return TableNode(
        label=Label(
            tag="td",
            colspan=_span(element.get("colspan")),
            rowspan=_span(element.get("rowspan")),
            content=tuple(_inside(element)) if with_content else (),
        )
    )


def _span(text: str | None) -> int:
    """Read a number of columns or rows; what is none counts as 1, as a missing one does."""
    try:
        return int(text or "1")
    except ValueError:
        return 1


def _inside(element: html.HtmlElement) -> Iterator[str]:
    """Yield the tokens inside of an element, one per character and tag."""
    yield from element.text or ""
    for child in element:
        yield f"<{child.tag}>"
        yield from _inside(child)
        if child.tag != "unk":
            yield f"</{child.tag}>"
        if child.tag != "td":
            yield from child.tail or ""
