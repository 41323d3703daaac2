"""The user's own root of the registry, to which commands add entries, each as one YAML file.

Later changes by the user to such a file are kept, except for the values that the command determines again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from pydantic import JsonValue

from vlmhyperbench.errors import Conflict, InvalidInput, NotFound
from vlmhyperbench.files import write_whole
from vlmhyperbench.registry.catalogue import SINGULAR, Catalogue
from vlmhyperbench.registry.documents import read_document
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.loading import SUFFIX, check_name
from vlmhyperbench.registry.schema_lines import with_schema_line, write_schemas

_NO_SLUG: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEntry:
    """An entry that is made."""

    kind: str
    name: str
    values: Mapping[str, JsonValue]
    """Values that replace those of the entry, if there is one."""
    same: tuple[str, ...]
    """Keys by which an entry of this name is known to be the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """An entry of the user's own root after a command."""

    kind: str
    name: str
    file: Path
    is_new: bool
    """Whether the file was changed; False if it already held the same content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """Target of added entries: the user's own root and the existing catalogue."""

    root: Path
    catalogue: Catalogue

    def add(self, kind: str, name: str, values: Mapping[str, JsonValue], *, same: Sequence[str]) -> Added:
        """Write an entry, beside what the user has written into it.

        Raises:
            Conflict: the name is taken by another entry.
        """
        return self.put([NewEntry(kind=kind, name=name, values=values, same=tuple(same))])[0]

    def put(self, entries: Sequence[NewEntry]) -> list[Added]:
        """Write entries, each beside what the user has written into it; none if one of them is refused.

        Raises:
            Conflict: a name is taken by another entry.
        """
        return [self._written(entry, values) for entry, values in [(entry, self.merged(entry)) for entry in entries]]

    def merged(self, entry: NewEntry) -> dict[str, JsonValue]:
        """Return the values that an entry will have, with what the user has written into it.

        Raises:
            InvalidInput: it is no name of an entry.
            Conflict: the name is taken by another entry.
        """
        check_name(entry.name)
        kind, name, file = entry.kind, entry.name, self._file(entry)
        roots = self.catalogue.origins.get((kind, name), ())
        if roots and self.root not in roots:
            message = f"The name {name!r} is that of a {SINGULAR[kind]} that came with the product."
            raise Conflict(
                message, cure="Choose another: `vlmhyperbench registry add` takes --name.", code="name_taken"
            )
        known = read_entry(file) if file.exists() else {}
        if known and any(known.get(key) != entry.values.get(key) for key in entry.same):
            message = f"The name {name!r} is that of another {SINGULAR[kind]}, in {file}."
            raise Conflict(
                message,
                cure="Choose another: `vlmhyperbench registry add` takes --name. Or remove that file.",
                code="name_taken",
            )
        return {**known, **entry.values}

    def _written(self, entry: NewEntry, values: Mapping[str, JsonValue]) -> Added:
        file = self._file(entry)
        is_new = not file.exists() or read_entry(file) != values
        if is_new:
            write_entry(file, values)
        return Added(kind=entry.kind, name=entry.name, file=file, is_new=is_new)

    def _file(self, entry: NewEntry) -> Path:
        return self.root / entry.kind / f"{entry.name}{SUFFIX}"


def slug_of(text: str) -> str:
    """Derive an entry's name from a file name.

    Raises:
        InvalidInput: no character of it is allowed in a name.
    """
    name = _NO_SLUG.sub("-", text).strip("._-")[:100]
    if not name:
        raise InvalidInput(f"No name can be made of {text!r}.", cure="Choose one with --name.", code="usage")
    return name


def existing(path: Path) -> Path:
    """Return the absolute path of a file.

    Raises:
        NotFound: it does not exist.
    """
    if not path.is_file():
        raise NotFound(f"There is no file {path}.", cure="Correct the path.", code="no_file")
    return path.absolute()


def read_entry(file: Path) -> dict[str, JsonValue]:
    """Return the content of an entry's file.

    Raises:
        RegistryErrors: it cannot be read.
    """
    document, errors = read_document(file, str(file))
    if document is None:
        raise RegistryErrors(errors)
    return document.value


def write_entry(file: Path, value: Mapping[str, JsonValue]) -> None:
    """Replace the file of an entry, and write the schemas that its first line names."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_schemas(file.parents[1])
    text = yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True)
    write_whole(file, with_schema_line(file.parent.name, text).encode())
