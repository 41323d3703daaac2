"""The lines of conda packages in a list of resolved packages, which are comments to installers of Python's packages."""

from __future__ import annotations

import json
from typing import Any, Final

MARK: Final = "# conda "
"""Begins the line of a conda package; a JSON object follows."""


def conda_lines(resolved: str) -> list[dict[str, Any]]:
    """Return the conda packages of a list of resolved packages, as they were written."""
    return [json.loads(line.removeprefix(MARK)) for line in resolved.splitlines() if line.startswith(MARK)]


def conda_packages(resolved: str) -> dict[str, str]:
    """Return `conda:NAME` → `VERSION=BUILD` of each conda package."""
    return {f"conda:{line['name']}": f"{line['version']}={line['build']}" for line in conda_lines(resolved)}


def python_version(resolved: str) -> str | None:
    """Return the version of Python that the conda packages bring; None where there are none."""
    return next((line["version"] for line in conda_lines(resolved) if line["name"] == "python"), None)
