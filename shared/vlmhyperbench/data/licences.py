"""Read under which licence a model is: from the front matter of its model card, or from the text of its licence."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

MAX_BYTES: Final = 64 * 1024
"""How much of a file is read: a model card begins with its front matter, a licence with its name."""
_CARD: Final = "README.md"
_FILES: Final = ("LICENSE", "LICENCE", "COPYING")
_MAX_LENGTH: Final = 100
_FRONT_MATTER: Final = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(\r?\n|$)", re.DOTALL)
_TEXTS: Final = (
    ("Apache-2.0", re.compile(r"Apache License,? Version 2\.0", re.IGNORECASE)),
    ("MIT", re.compile(r"Permission is hereby granted, free of charge.*without restriction", re.IGNORECASE)),
    ("BSD-3-Clause", re.compile(r"Redistribution and use in source and binary forms.*Neither the name", re.IGNORECASE)),
    ("BSD-2-Clause", re.compile(r"Redistribution and use in source and binary forms", re.IGNORECASE)),
)
"""Identifier of SPDX → what the text of that licence has, as the Open Source Initiative publishes it."""


def licence_in(folder: Path) -> str | None:
    """Return the licence that the files of a folder state; None where they state none."""

    def read(name: str) -> bytes:
        try:
            with (folder / name).open("rb") as file:
                return file.read(MAX_BYTES)
        except OSError:  # as a folder of that name
            return b""

    return licence_among([path.name for path in folder.iterdir()], read)


def licence_among(names: Collection[str], read: Callable[[str], bytes]) -> str | None:
    """Return the licence that some of these files state; None where none does.

    Args:
        names: Names of all files.
        read: Returns the beginning of a file.
    """
    if _CARD in names and (licence := licence_of_card(_front_matter(_text(read(_CARD))))) is not None:
        return licence
    stating = [name for name in sorted(names) if name.upper().startswith(_FILES)]
    return next((licence for name in stating if (licence := _licence_of_text(_text(read(name)))) is not None), None)


def licence_of_card(card: Mapping[str, Any]) -> str | None:
    """Return the licence of a model card's front matter: its own name where it is none of the known ones."""
    general, specific = _name(card.get("license")), _name(card.get("license_name"))
    return specific if general in {None, "other"} and specific else general


def _name(value: object) -> str | None:
    names = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return _shown(", ".join(name for name in names if isinstance(name, str)))


def _front_matter(text: str) -> Mapping[str, Any]:
    match = _FRONT_MATTER.match(text)
    try:
        card = yaml.safe_load(match[1]) if match is not None else None
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return card if isinstance(card, dict) else {}


def _licence_of_text(text: str) -> str | None:
    """Return the identifier of a known licence, or else the first line, which is the name of others."""
    flat = " ".join(text.split())
    known = next((name for name, pattern in _TEXTS if pattern.search(flat)), None)
    return known or _shown(next((line for line in text.splitlines() if line.strip()), ""))


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _shown(text: str) -> str | None:
    plain = "".join(letter for letter in " ".join(text.split()) if letter.isprintable())
    return plain[:_MAX_LENGTH] or None
