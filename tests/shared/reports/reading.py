"""Read a report in tests: its sections, tables, cells and figures by name, and its sentences for `wording`."""

from __future__ import annotations

from vlmhyperbench.analysis.figures import FigureSpec
from vlmhyperbench.reports.document import Block, Document, Points, Section, Table, write_cell


def section_of(document: Document, name: str) -> Section:
    (section,) = [section for section in document.sections if section.name == name]
    return section


def blocks_of(part: Document | Section) -> list[Block]:
    """Return the blocks of a section, or of all sections of a report."""
    sections = part.sections if isinstance(part, Document) else (part,)
    return [block for section in sections for block in section.blocks]


def tables_of(part: Document | Section) -> dict[str, Table]:
    """Return tables by their names, which are unique."""
    tables = [block for block in blocks_of(part) if isinstance(block, Table)]
    by_name = {table.name: table for table in tables}
    assert len(by_name) == len(tables)
    return by_name


def figures_of(part: Document | Section) -> dict[str, FigureSpec]:
    """Return figures by their names."""
    return {block.name: block for block in blocks_of(part) if isinstance(block, FigureSpec)}


def cells_of(table: Table) -> list[tuple[str, ...]]:
    """Return the rows of a table as text, with plain spaces."""
    return [tuple(write_cell(cell).replace("\u00a0", " ") for cell in row) for row in table.rows]


def values_of(table: Table) -> list[tuple[str, ...]]:
    """Return the rows of a table as text, without the first column, which has the labels."""
    return [row[1:] for row in cells_of(table)]


def words_of(table: Table) -> str:
    """Return a table as a reader sees it: its title, its columns, its rows and its note, a line each."""
    titles = [column.title for column in table.columns]
    rows = [" | ".join(cells) for cells in (titles, *cells_of(table))]
    return "\n".join([table.title, *rows, table.note])


def verdict_of(document: Document) -> str:
    """Return the three sentences of the verdict, a line each."""
    return "\n".join(document.verdict)


def limits_of(document: Document) -> str:
    """Return the limitations, a line each."""
    (points,) = section_of(document, "limitations").blocks
    assert isinstance(points, Points)
    return "\n".join(points.items)
