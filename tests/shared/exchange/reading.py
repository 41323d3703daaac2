"""Read files in tests: where the true ones lie, and every answer of a file in short."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from vlmhyperbench.exchange.answers import AnswersFile, ImportedAnswer
from vlmhyperbench.exchange.reading import read

DATA = Path(__file__).parent / "data" / "imported"


def write(path: Path, text: str | bytes) -> Path:
    """Write a file, and return where."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def write_lines(path: Path, *rows: Mapping[str, object]) -> Path:
    """Write JSON Lines as Python does by default: NaN stays NaN."""
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


def answers(path: Path, format: str = "auto", **options: object) -> list[ImportedAnswer]:  # noqa: A002 -- as in the product
    """Return all answers of a file."""
    return taken(path, format, **options)[1]


def taken(path: Path, format: str = "auto", **options: object) -> tuple[AnswersFile, list[ImportedAnswer]]:  # noqa: A002 -- as in the product
    """Return a file's header, its notes complete, and its answers."""
    file = read(path, format, **options)
    return file, list(file.answers)
