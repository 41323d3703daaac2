"""Parse the first table of an HTML text as the tree that TEDS compares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from lxml import etree, html

_UNREADABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The properties by which nodes are compared; nodes with equal labels are equal."""

    tag: str
    colspan: int | None = None
    """Of a `td`; None for every other tag."""
    rowspan: int | None = None
    content: tuple[str, ...] = ()
    """Of a `td`: its characters, and the tags inside of it as `<b>` and `</b>`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNode:
    """An element of a table. The inside of a `td` is its content and not its children."""

    label: Label
    children: tuple[TableNode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table as a tree, with its number of elements."""

    root: TableNode
    elements: int
    """Number of elements below `table`, including those inside cells; edit distances are divided by it."""


def read_table(text: str, *, with_content: bool) -> Table | None:
    """Return the first table that is a direct child of the body, or None.

    Text without `<html>` and `<body>` is parsed as the content of a body. Comments and processing instructions are
    ignored. Nothing is fetched, only HTML's own entities are known, and no text raises.

    Args:
        text: HTML, or any other text.
        with_content: Whether cells have their content.
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


def table_lines(table: Table) -> str:
    """Return a table with one line for each element, as it is compared."""
    return "\n".join(_lines(table.root, 0))


def _lines(node: TableNode, depth: int) -> Iterator[str]:
    label = node.label
    spans = [f" {name}={span}" for name, span in (("colspan", label.colspan), ("rowspan", label.rowspan)) if span != 1]
    written = "".join(spans) if label.tag == "td" else ""
    # Single characters are text, so that a cell with the text <b> differs from one with bold text.
    content = "".join(token if len(token) > 1 else escape(token, quote=False) for token in label.content)
    yield f"{'  ' * depth}<{label.tag}{written}>{content}"
    for child in node.children:
        yield from _lines(child, depth + 1)


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
    """Parse a number of columns or rows; a missing or malformed one counts as 1."""
    try:
        return int(text or "1")
    except ValueError:
        return 1


def _inside(element: html.HtmlElement) -> Iterator[str]:
    """Yield the tokens inside an element: characters and tags."""
    yield from element.text or ""
    for child in element:
        yield f"<{child.tag}>"
        yield from _inside(child)
        if child.tag != "unk":
            yield f"</{child.tag}>"
        if child.tag != "td":
            yield from child.tail or ""
