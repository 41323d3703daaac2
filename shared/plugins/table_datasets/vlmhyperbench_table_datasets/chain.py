"""Several files of lines as one table: rows are numbered through."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vlmhyperbench_table_datasets.rows import Facts, Row, RowError, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainedTable:
    """Tables of one form, one after the other."""

    tables: Sequence[Table]

    @staticmethod
    def of(tables: Sequence[Table]) -> Table:
        """Return the only table itself, or the chain of several."""
        return tables[0] if len(tables) == 1 else ChainedTable(tables=tables)

    @property
    def root(self) -> Path:
        return self.tables[0].root

    @property
    def name(self) -> str:
        return str(self.root)

    def facts(self) -> Facts:
        return self.tables[0].facts()

    def rows(self, columns: Collection[str] | None = None) -> Iterator[Row | RowError]:
        before = 0
        for table in self.tables:
            count = 0
            for row in table.rows(columns):
                count += 1
                yield replace(row, number=before + row.number) if isinstance(row, Row) else row
            before += count
