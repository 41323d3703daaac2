"""The correct one of several choices: a table names it by its index, its letter or its text."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Final

from vlmhyperbench_sdk.types import JsonValue
from vlmhyperbench_table_datasets.fields import Field, Unmapped, read_field
from vlmhyperbench_table_datasets.rows import Cell

CORRECT: Final = "correct"
GIVEN: Final = ("index", "letter", "text")
"""How a table names the correct choice; an index counts from 0."""
ACCEPTED: Final = ("letter", "text", "both")
"""What counts as the accepted answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correct:
    """Which column names the correct choice, and what becomes the reference."""

    field: Field
    given: str
    accept: str

    @property
    def needs_choices(self) -> bool:
        """Whether the table's form cannot be translated without the choices."""
        return (self.given, self.accept) != ("letter", "letter")

    def references(
        self, cells: Mapping[str, Cell], labels: Mapping[str, Sequence[str]], choices: Sequence[str]
    ) -> list[str]:
        """Return the accepted answers of a row.

        Raises:
            Unmapped: the row names none of its choices. A row without choices is an open question: its value is kept.
        """
        value = self.field.of(cells, labels)
        if value is None:
            return []
        if not choices:
            return [str(value)]
        index = self._index(value, choices)
        letter, text = ascii_uppercase[index], choices[index]
        return {"letter": [letter], "text": [text], "both": [letter, text]}[self.accept]

    def _index(self, value: Cell, choices: Sequence[str]) -> int:
        text = str(value).strip()
        index = -1
        if self.given == "index" and text.removesuffix(".0").isdigit():
            index = int(text.removesuffix(".0"))
        elif self.given == "letter" and len(text) == 1:
            index = ascii_uppercase.find(text.upper())
        elif self.given == "text" and text in choices:
            index = choices.index(text)
        if not 0 <= index < min(len(choices), len(ascii_uppercase)):
            named = f"the column {self.field.column!r} is {text[:80]!r}"
            raise Unmapped(f"{named}, which is no {self.given} of its {len(choices)} choices")
        return index


def read_correct(given: JsonValue, columns: Collection[str] | None) -> tuple[Correct | None, list[str]]:
    """Read `columns.correct`: a field with `by` and `accept` beside it, and its problems."""
    path = f"columns.{CORRECT}"
    if isinstance(given, str):
        given = {"column": given}
    if not isinstance(given, Mapping):
        return None, [f"{path}: {given!r} is neither the name of a column nor a mapping."]
    by, accept = given.get("by", GIVEN[0]), given.get("accept", ACCEPTED[0])
    read, problems = read_field(
        path, {name: value for name, value in given.items() if name not in ("by", "accept")}, columns
    )
    if by not in GIVEN:
        problems.append(f"{path}.by: {by!r} is none of {', '.join(GIVEN)}.")
    if accept not in ACCEPTED:
        problems.append(f"{path}.accept: {accept!r} is none of {', '.join(ACCEPTED)}.")
    return (None if problems else Correct(field=read, given=str(by), accept=str(accept))), problems
