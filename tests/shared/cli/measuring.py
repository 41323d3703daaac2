"""`vlmhyperbench load` as a test calls it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vlmhyperbench.cli.load import load
from vlmhyperbench.cli.shown import Shown

JSON = Shown(json=True, quiet=True)


def measured(capsys: pytest.CaptureFixture[str], url: str, **arguments: Any) -> dict[str, Any]:
    """Run `load --json` and return its data."""
    load(url, shown=JSON, **{"model": "m", **arguments})
    data: dict[str, Any] = json.loads(capsys.readouterr().out)["data"]
    return data
