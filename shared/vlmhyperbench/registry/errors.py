"""All that is wrong with registry entries, at once: where it is, what it is, how it is cured."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from vlmhyperbench.errors import InvalidInput

Path = tuple[str | int, ...]
"""Keys and positions from the top of an entry to a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something wrong at a place inside one entry, before anybody knows in which file that is."""

    path: Path
    message: str
    cure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class RegistryError:
    """One error. An entry that came by another way than a file has no file and no line."""

    file: str | None = None
    line: int | None = None
    field: str = ""
    """Dotted path inside the entry, `matrix.targets.0.model`."""
    message: str = ""
    cure: str = ""

    def __str__(self) -> str:
        location = f"{self.file}:{self.line or 1}: " if self.file else ""
        field = f"{self.field}: " if self.field else ""
        return f"{location}{field}{self.message}{f' {self.cure}' if self.cure else ''}"


class RegistryErrors(InvalidInput):
    """Registry entries are wrong; `errors` holds every one of them, by file and line."""

    code = "registry_errors"

    def __init__(self, errors: Iterable[RegistryError]) -> None:
        unique = {(error.file or "", error.line or 0, error.field, error.message): error for error in errors}
        self.errors: list[RegistryError] = [unique[key] for key in sorted(unique)]
        super().__init__("\n".join(map(str, self.errors)))


def field_of(path: Path) -> str:
    """Write a path with dots."""
    return ".".join(map(str, path))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Offer the nearest names, or all there are where none is near."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return f"There {'is' if len(names) == 1 else 'are'} {', '.join(names)}." if names else "There is none."
