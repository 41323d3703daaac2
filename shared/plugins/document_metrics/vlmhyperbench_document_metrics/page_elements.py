"""Cut a page of Markdown, and the annotation of one, into texts, formulas and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.jsontext import parse_json
from vlmhyperbench_sdk.types import JsonObject, JsonValue

_KINDS = {
    **dict.fromkeys(("text_block", "title", "text_caption", "header", "footer", "page_number", "footnote"), "text"),
    **dict.fromkeys(("equation_isolated", "equation_inline"), "formula"),
    "table": "table",
}
_CONTENT = {"text": "text", "formula": "latex", "table": "html"}
"""Kind of an element → the key of its content in the annotation."""
_FENCE = re.compile(r"```(?:markdown|html|latex)?\s*\n?")
_TABLE = re.compile(r"<table[\s>]", re.IGNORECASE)
_TABLE_END = re.compile(r"</table>", re.IGNORECASE)
_ROW = re.compile(r"\|.+\|[ \t]*")
_RULE = re.compile(r"\|[\s:|-]+\|[ \t]*")
_INLINE = re.compile(r"\$(.+?)\$")
_HEADING = re.compile(r"^#{1,6}\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageElements:
    """The elements of a page by their kind, in reading order."""

    text: list[str] = field(default_factory=list)
    formula: list[str] = field(default_factory=list)
    """LaTeX, without its delimiters."""
    table: list[str] = field(default_factory=list)
    """HTML."""


def read_annotation(text: str) -> PageElements | None:
    """Return the elements of a page of OmniDocBench, its JSON; None for any other text.

    Parts of an element that a break of column or page cut are joined by a space.
    """
    try:
        page = parse_json(text, any_text=True)
    except InvalidInput:
        return None
    if not isinstance(page, dict) or not isinstance(page.get("layout_dets"), list):
        return None
    found: dict[str, list[tuple[float, str]]] = {"text": [], "formula": [], "table": []}
    for parts in _joined(page):
        parts = sorted(parts, key=_order)
        kind = _KINDS.get(str(parts[0].get("category_type")))
        if kind is not None:
            contents = [content for part in parts if isinstance(content := part.get(_CONTENT[kind]), str) and content]
            if whole := " ".join(contents).strip():
                found[kind].append((_order(parts[0]), whole))
    elements = {kind: [text for _, text in sorted(items, key=lambda item: item[0])] for kind, items in found.items()}
    return PageElements(**elements)


def read_markdown(text: str) -> PageElements:
    """Return the elements of an answer: tables in HTML or with bars, display formulas, a text for each other line."""
    rest, tables = _cut_html(_FENCE.sub("", text).replace("```", ""))
    rest, more = _cut_bars(rest)
    rest, formulas = _cut_formulas(rest)
    lines = [_HEADING.sub("", _INLINE.sub(r"\1", line).strip(), count=1) for line in rest.split("\n")]
    return PageElements(text=[line for line in lines if len(line) > 1], formula=formulas, table=[*tables, *more])


def _joined(page: JsonObject) -> list[list[JsonObject]]:
    """Return the annotations of a page in groups, each the parts of one element."""
    parts = [part for part in _list(page.get("layout_dets")) if isinstance(part, dict)]
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.get(name, name) != name:
            name = parent[name]
        return name

    extra = page.get("extra")
    for relation in _list(extra.get("relation") if isinstance(extra, dict) else None):
        if isinstance(relation, dict) and relation.get("relation_type") == "truncated":
            first, second = (root(str(relation.get(f"{end}_anno_id"))) for end in ("source", "target"))
            parent[first] = second
            parent.setdefault(second, second)
    groups: dict[str, list[JsonObject]] = {}
    for number, part in enumerate(parts):
        name = str(part["anno_id"]) if "anno_id" in part else f"without {number}"
        groups.setdefault(root(name), []).append(part)
    return list(groups.values())


def _list(value: JsonValue) -> Sequence[JsonValue]:
    return value if isinstance(value, list) else []


def _order(part: JsonObject) -> float:
    order = part.get("order")
    return order if isinstance(order, (int, float)) else 0.0


def _cut_html(text: str) -> tuple[str, list[str]]:
    rest, tables, at = [], [], 0
    while (begin := _TABLE.search(text, at)) and (end := _TABLE_END.search(text, begin.end())):
        rest.append(text[at : begin.start()])
        tables.append(text[begin.start() : end.end()])
        at = end.end()
    return "\n".join([*rest, text[at:]]), tables


def _cut_bars(text: str) -> tuple[str, list[str]]:
    """Cut tables of a head, a rule and at least one row, whose lines begin and end with a bar."""
    lines, rest, tables, at = text.split("\n"), [], [], 0
    is_row = [bool(_ROW.fullmatch(line)) for line in lines]
    while at < len(lines):
        end = at + 2
        if is_row[at] and end < len(lines) and is_row[end] and _RULE.fullmatch(lines[at + 1]):
            while end < len(lines) and is_row[end]:
                end += 1
            tables.append(_as_html(lines[at:end]))
            at = end
            rest.append("")
        else:
            rest.append(lines[at])
            at += 1
    return "\n".join(rest), tables


def _as_html(lines: Sequence[str]) -> str:
    head, *rows = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in [lines[0], *lines[2:]])
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    top = "".join(f"<th>{cell}</th>" for cell in head)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _cut_formulas(text: str) -> tuple[str, list[str]]:
    spans = list(_formulas(text))
    begins, ends = [begin for begin, _ in spans], [end for _, end in spans]
    rest = [text[end:begin] for end, begin in zip([0, *ends], [*begins, len(text)], strict=True)]
    contents = [text[begin + 2 : end - 2].strip() for begin, end in spans]
    return "\n".join(rest), [content for content in contents if content]


def _formulas(text: str) -> Iterator[tuple[int, int]]:
    r"""Yield where display formulas begin and end, `$$…$$` and `\[…\]`."""
    closers, at = {"$$": "$$", "\\[": "\\]"}, 0
    while openers := [(begin, mark) for mark in closers if (begin := text.find(mark, at)) >= 0]:
        begin, mark = min(openers)
        end = text.find(closers[mark], begin + 3)
        if end < 0:
            del closers[mark]  # what is not closed here is not closed further on either
            continue
        yield begin, end + 2
        at = end + 2
