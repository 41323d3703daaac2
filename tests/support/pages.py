"""The code that pages show, as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def snippets(page: Path) -> list[str]:
    """Return every Python block of a page, with its line numbers kept for tracebacks."""
    text = page.read_text(encoding="utf-8")
    return ["\n" * text[: block.start(1)].count("\n") + block[1] for block in _BLOCK.finditer(text)]


def execute(page: Path, **names: object) -> dict[str, Any]:
    """Run the Python blocks of a page one after the other, and return the names that they leave."""
    found = snippets(page)
    assert found, f"{page} has no Python."
    space: dict[str, Any] = {"__name__": page.stem, **names}
    for code in found:
        exec(compile(code, str(page), "exec"), space)
    return space
