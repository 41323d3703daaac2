"""Write the members of the workspace into the root pyproject.toml, from the folders.

Names of services, plugins and rooms stand in the import contracts, distributions in the extra `embedded`.
`python -m tests.architecture.members` does it, and `make members` calls that; a test notices a folder that is missing
there. mypy, pytest, ruff and uv find the members by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[2]
PYPROJECT = ROOT / "pyproject.toml"
SERVICES, PLUGINS = "services", "shared/plugins"
ENGINE = "engine"
"""The extra of a plugin that brings the engine which it starts."""


def derived(text: str, root: Path = ROOT) -> str:
    """Return the file with what its marks enclose written anew."""
    services, plugins = _members(root, SERVICES), _members(root, PLUGINS)
    text = _between(text, "services", [f"vlmhyperbench_{folder.name}" for folder in services])
    text = _between(text, "plugins", [f"vlmhyperbench_{folder.name}" for folder in plugins])
    text = _between(text, "distributions", sorted(map(_requirement, (*services, *plugins))))
    for mark, allowed in re.findall(r"    # <(rooms but (.*))>\n", text):
        rooms = [f"vlmhyperbench.{name}" for name in _rooms(root) if name not in allowed.split(", ")]
        text = _between(text, mark, rooms, end="rooms")
    return text


def _members(root: Path, folder: str) -> list[Path]:
    return [path.parent for path in sorted((root / folder).glob("*/pyproject.toml"))]


def _requirement(folder: Path) -> str:
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
    extra = f"[{ENGINE}]" if ENGINE in project.get("optional-dependencies", {}) else ""
    return f"vlmhyperbench-{folder.name.replace('_', '-')}{extra}>=0.1,<0.2"


def _rooms(root: Path) -> Iterator[str]:
    """Yield the packages and modules of the shared library."""
    for path in sorted((root / "shared/vlmhyperbench").glob("[a-z]*")):
        if path.suffix == ".py" or (path / "__init__.py").is_file():
            yield path.stem


def _between(text: str, mark: str, names: Iterable[str], *, end: str = "") -> str:
    lines = "".join(f'    "{name}",\n' for name in names)
    return re.sub(rf"(    # <{mark}>\n).*?(    # </{end or mark}>\n)", rf"\g<1>{lines}\g<2>", text, flags=re.DOTALL)


if __name__ == "__main__":
    PYPROJECT.write_text(derived(PYPROJECT.read_text(encoding="utf-8")), encoding="utf-8")
