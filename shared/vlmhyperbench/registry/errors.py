"""Errors in registry entries, all collected: location, message and cure of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from vlmhyperbench.errors import InvalidInput

Path = tuple[str | int, ...]
"""Keys and list positions from an entry's top level to a value."""


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """The location of a value in a file."""

    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error at a path inside an entry, before it is mapped to a file."""

    path: Path
    message: str
    cure: str = ""

    def at(self, location: SourceLocation | None) -> RegistryError:
        """Return the error at a location; None: in an entry that does not come from a file."""
        return RegistryError(
            file=location.file if location is not None else None,
            line=location.line if location is not None else None,
            field=field_of(self.path),
            message=self.message,
            cure=self.cure,
        )


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class RegistryError:
    """An error; entries that do not come from a file have no file and no line."""

    file: str | None = None
    line: int | None = None
    field: str = ""
    """Dotted path inside the entry, such as `matrix.targets.0.model`."""
    message: str = ""
    cure: str = ""

    @property
    def located(self) -> str:
        """The message after its file, line and field."""
        location = f"{self.file}:{self.line or 1}: " if self.file else ""
        field = f"{self.field}: " if self.field else ""
        return f"{location}{field}{self.message}"

    def __str__(self) -> str:
        return f"{self.located} {self.cure}".rstrip()


class RegistryErrors(InvalidInput):
    """Registry entries are invalid; `errors` lists all errors, ordered by file and line."""

    code = "registry_errors"

    def __init__(self, errors: Iterable[RegistryError]) -> None:
        unique = {(error.file or "", error.line or 0, error.field, error.message): error for error in errors}
        self.errors: list[RegistryError] = [unique[key] for key in sorted(unique)]
        if len(self.errors) == 1:
            super().__init__(self.errors[0].located, cure=self.errors[0].cure)
        else:
            super().__init__("\n".join(map(str, self.errors)))

    @classmethod
    def of(
        cls, problems: Iterable[Problem], location_of: Callable[[Path], SourceLocation | None] = lambda _: None
    ) -> RegistryErrors:
        """Return the errors of problems at their locations; by default, of an entry that does not come from a file."""
        return cls(problem.at(location_of(problem.path)) for problem in problems)


def field_of(path: Path) -> str:
    """Return a path in dotted form."""
    return ".".join(map(str, path))
