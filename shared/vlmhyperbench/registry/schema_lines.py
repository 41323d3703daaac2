"""The first line of a registry file, by which editors check and complete it: the path of the schema of its kind.

`python -m vlmhyperbench.registry.schema_lines FOLDER` writes the line into every file, and the schemas beside them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from vlmhyperbench.files import write_whole
from vlmhyperbench.registry.schemas import KINDS, json_schemas

SCHEMAS: Final = "schemas"
"""Folder of the schemas, beside those of the kinds."""
_LINE: Final = re.compile(r"\A\ufeff?#\s*yaml-language-server:[^\n]*\n?")


def schema_line(kind: str) -> str:
    """Return the first line of the files of a kind, without its end."""
    return f"# yaml-language-server: $schema=../{SCHEMAS}/{kind}.schema.json"


def with_schema_line(kind: str, text: str) -> str:
    """Return the text of a file with the line at its start, in the place of one that is there."""
    return f"{schema_line(kind)}\n{_LINE.sub('', text, count=1)}"


def write_schemas(root: Path) -> None:
    """Write the schemas beside the folders of the kinds, where they are not there in this form."""
    for name, text in json_schemas().items():
        file = root / SCHEMAS / name
        if not file.is_file() or file.read_text("utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, text.encode())


def write_lines(root: Path) -> list[Path]:
    """Write the line into every file of every kind that has another; return these files.

    Overlays are left out: a part of an entry is not valid by the schema of the whole.
    """
    changed = []
    for kind in KINDS:
        for file in sorted((root / kind).glob("*.yaml")):
            if file.stem.endswith(".dev"):
                continue
            text = file.read_text("utf-8")
            wanted = with_schema_line(kind, text)
            if text != wanted:
                write_whole(file, wanted.encode())
                changed.append(file)
    return changed


def main(root: Path) -> None:
    """Write schemas and lines into a folder of registry files."""
    write_schemas(root)
    write_lines(root)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
