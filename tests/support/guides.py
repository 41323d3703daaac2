"""The guides for writers of plugins, as what they show: a module, its entry point, its files of the registries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib

from tests.support.pages import snippets

DOCS = Path(__file__).parents[2] / "docs"
GUIDES = {
    "metric": DOCS / "write-a-metric.md",
    "dataset": DOCS / "write-a-dataset.md",
    "prompt": DOCS / "write-a-prompt.md",
    "adapter": DOCS / "write-an-adapter.md",
    "report": DOCS / "write-a-report.md",
}
_GROUP = "vlmhyperbench."


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """One guide."""

    module: str
    """Name of the module that its first Python block is."""
    source: str
    project_text: str
    """Its lines of a pyproject.toml."""
    files: Mapping[str, str]
    """Path below the registries' parent → text."""

    @property
    def project(self) -> Mapping[str, Any]:
        """Its lines of a pyproject.toml, read."""
        return tomllib.loads(self.project_text)

    @property
    def entry_points(self) -> Mapping[str, str]:
        """Name → class, of every group."""
        groups = self.project["project"]["entry-points"]
        return {name: target for points in groups.values() for name, target in points.items()}

    @property
    def groups(self) -> list[str]:
        """Groups of entry points that it registers in."""
        return [name.removeprefix(_GROUP) for name in self.project["project"]["entry-points"]]


def read_guide(name: str) -> Guide:
    """Read one guide."""
    page = GUIDES[name]
    text = page.read_text(encoding="utf-8")
    (module,) = re.findall(r"[Ss]ave (?:this|it) as `(\w+)\.py`", text)
    return Guide(
        module=module,
        source=snippets(page)[0].lstrip("\n"),
        project_text="\n".join(_blocks(text, "toml")),
        files=dict(_registry_file(block) for block in _blocks(text, "yaml") if block.startswith("# registries/")),
    )


def _blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def _registry_file(block: str) -> tuple[str, str]:
    first, _, rest = block.partition("\n")
    return first.removeprefix("# "), rest
