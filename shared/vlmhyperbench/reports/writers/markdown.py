"""Write a document as Markdown; figures and pages are files in the same folder.

Texts from models and data sets cannot become markup: all characters with a meaning in Markdown or HTML are escaped,
and a cell stays on one line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from vlmhyperbench.analysis.figures import FigureSpec
from vlmhyperbench.reports.document import (
    Block,
    Case,
    Cases,
    Document,
    Facts,
    Listing,
    Points,
    Prediction,
    SampleTable,
    Section,
    Table,
    write_cell,
)
from vlmhyperbench.reports.writers.plots import Drawing
from vlmhyperbench.reports.writers.thumbnails import Thumbnail

_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")
_LINE_START = re.compile(r"^(\d+)([.)])(?= )|^([-+](?= )|[=#>])")


def to_markdown(document: Document, *, images: Collection[str]) -> bytes:
    """Return UTF-8 Markdown (GitHub's dialect).

    `images` are the content hashes for which the report's folder has a file `image_name(hash)`; figures are expected
    as `<figure name>.svg`.
    """
    lines = [f"# {escape(document.title)}", "", f"{escape(document.subtitle)}", ""]
    finished = f" · finished {escape(document.finished_at)}" if document.finished_at else ""
    lines += [f"**{escape(document.state)}** · `{document.id}`{finished}", ""]
    lines += [f"> {escape(sentence)}" for sentence in document.verdict]
    lines += [""]
    for section in document.sections:
        lines += _section(section, images)
    return _written(lines)


def markdown_files(
    document: Document, *, drawings: Mapping[str, Drawing], thumbnails: Mapping[str, Thumbnail]
) -> dict[str, bytes]:
    """Return the report and the files that it refers to, by name; the arguments are those of `html.to_html`."""
    return {
        "report.md": to_markdown(document, images=thumbnails),
        **{f"{name}.svg": drawing.file for name, drawing in drawings.items()},
        **{image_name(sha256): thumbnails[sha256].data for sha256 in document.images if sha256 in thumbnails},
    }


def sections_to_markdown(title: str, sections: Sequence[Section]) -> bytes:
    """Return sections without figures or pages under a title, for the summary of a build for instance."""
    lines = [f"# {escape(title)}", ""]
    for section in sections:
        lines += _section(section, ())
    return _written(lines)


def image_name(sha256: str) -> str:
    """Return the file name of a page's picture."""
    return f"page-{sha256[:16]}.webp"


def escape(text: str) -> str:
    """Make a text harmless in Markdown: on one line, no markup, no HTML."""
    line = " ".join(text.split())
    safe = _SPECIAL.sub(r"\\\1", line.replace("&", "&amp;").replace("<", "&lt;"))
    return _LINE_START.sub(lambda m: f"{m[1]}\\{m[2]}" if m[1] else f"\\{m[3]}", safe)


def _section(section: Section, images: Collection[str]) -> Iterator[str]:
    yield from (f"## {escape(section.title)}", "")
    if section.lead:
        yield from (escape(section.lead), "")
    for block in section.blocks:
        yield from _block(block, images)


def _block(block: Block, images: Collection[str]) -> Iterator[str]:
    match block:
        case Table():
            yield from _heading(block.title)
            yield from _grid(
                [column.title for column in block.columns],
                [column.kind in {"number", "estimate"} for column in block.columns],
                [[write_cell(cell) for cell in row] for row in block.rows],
            )
            yield from _note(block.note)
        case FigureSpec():
            yield from _heading(block.title)
            yield from (f"![{escape(block.alt)}]({block.name}.svg)", "")
            yield from _note(block.note)
            yield from ("<details><summary>The numbers</summary>", "")
            rows = [[write_cell(cell) for cell in row] for row in block.table.rows]
            yield from _grid(block.table.columns, block.table.is_number, rows)
            yield from ("</details>", "")
        case Facts():
            yield from _heading(block.title)
            yield from _grid(["", ""], [False, False], block.items)
        case Listing():
            yield from _heading(block.title)
            yield from _fenced(block.text)
        case Points():
            yield from _heading(block.title)
            yield from (f"- {escape(item)}" for item in block.items)
            yield ""
        case SampleTable():
            yield from _note(block.note)
        case Cases():
            yield from _heading(block.title)
            yield from _note(block.note)
            for case in block.items:
                yield from _case(case, images)


def _case(case: Case, images: Collection[str]) -> Iterator[str]:
    tags = " · ".join(escape(tag) for tag in (case.kind, *case.tags))
    yield from (f"#### {escape(case.question)}", "", f"{tags} · {_code(case.key)}", "")
    for image in case.images:
        if image in images:
            yield from (f"![Page of the sample]({image_name(image)})", "")
    expected = " or ".join(_code(reference) for reference in case.references) or "no reference"
    yield f"- expected {expected}"
    yield from (_answer(answer) for answer in case.answers)
    yield ""


def _answer(answer: Prediction) -> str:
    text = "".join(span.text for span in answer.spans if span.kind != "missing")
    note = f" · {escape(answer.note)}" if answer.note else ""
    return f"- {escape(answer.run) or 'answered'} {_code(text) if text else 'nothing'} · {escape(answer.score)}{note}"


def _code(text: str) -> str:
    line = " ".join(text.split())
    ticks = "`" * (1 + max((len(run) for run in re.findall(r"`+", line)), default=0))
    pad = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def _fenced(text: str) -> Iterator[str]:
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    yield from (f"{ticks}text", text, ticks, "")


def _heading(title: str) -> Iterator[str]:
    if title:
        yield from (f"### {escape(title)}", "")


def _note(note: str) -> Iterator[str]:
    if note:
        yield from (f"*{escape(note)}*", "")


def _grid(titles: Sequence[str], is_right: Sequence[bool], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(escape(title) for title in titles) + " |"
    yield "|" + "|".join("---:" if right else "---" for right in is_right) + "|"
    for row in rows:
        yield "| " + " | ".join(escape(cell) for cell in row) + " |"
    yield ""


def _written(lines: Sequence[str]) -> bytes:
    """Join lines; a NUL is replaced, because many readers take a file with one for a binary file."""
    return ("\n".join(lines).rstrip() + "\n").replace("\0", "\N{REPLACEMENT CHARACTER}").encode()
