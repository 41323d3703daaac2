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
from vlmhyperbench.registry.loading import SUFFIX
from vlmhyperbench.registry.schema_lines import with_schema_line, write_schemas

_NO_SLUG: Final = re.compile(r"[^A-Za-z0-9._-]+")


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

        Args:
            kind: Kind of entry.
            name: Its name.
            values: Values that replace those of the entry.
            same: Keys by which an entry of this name is known to be the same.

        Raises:
            Conflict: the name is taken by another entry.
        """
        roots = self.catalogue.origins.get((kind, name), ())
        file = self.root / kind / f"{name}{SUFFIX}"
        if roots and self.root not in roots:
            message = f"The name {name!r} is that of a {SINGULAR[kind]} that came with the product."
            raise Conflict(
                message, cure="Choose another: `vlmhyperbench registry add` takes --name.", code="name_taken"
            )
        known = read_entry(file) if file.exists() else {}
        if known and any(known.get(key) != values.get(key) for key in same):
            message = f"The name {name!r} is that of another {SINGULAR[kind]}, in {file}."
            raise Conflict(
                message,
                cure="Choose another: `vlmhyperbench registry add` takes --name. Or remove that file.",
                code="name_taken",
            )
        merged = {**known, **values}
        if merged != known:
            write_entry(file, merged)
        return Added(kind=kind, name=name, file=file, is_new=merged != known)


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
