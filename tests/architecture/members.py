"""Write the names of services and plugins into the import contracts of the root pyproject.toml, from the folders.

`python -m tests.architecture.members` does it, and `make members` calls that; a test notices a folder that is missing
there. mypy, pytest, ruff and uv find the members by themselves.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYPROJECT = ROOT / "pyproject.toml"
FOLDERS = {"services": "services", "plugins": "shared/plugins"}
"""Mark in the file → folder whose members stand between such marks."""


def derived(text: str, root: Path = ROOT) -> str:
    """Return the file with what its marks enclose written anew."""
    for mark, folder in FOLDERS.items():
        names = [f"vlmhyperbench_{path.parent.name}" for path in sorted((root / folder).glob("*/pyproject.toml"))]
        lines = "".join(f'    "{name}",\n' for name in names)
        text = re.sub(rf"(    # <{mark}>\n).*?(    # </{mark}>\n)", rf"\g<1>{lines}\g<2>", text, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    PYPROJECT.write_text(derived(PYPROJECT.read_text(encoding="utf-8")), encoding="utf-8")
