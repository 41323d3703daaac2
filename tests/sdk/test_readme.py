"""What the SDK's page shows is true: what it names exists, and every group of plugins stands in its table."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import get_args

from vlmhyperbench_sdk import discovery, protocols

PAGE = Path(__file__).parents[2] / "shared" / "sdk" / "README.md"
_ROW = re.compile(r"^\| `vlmhyperbench\.(\w+)` \| `(\w+)` \| [^|]* \| `(\w+)` \|", re.MULTILINE)


def test_every_group_of_plugins_has_its_row_with_protocol_and_suite() -> None:
    rows = _ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert {group for group, _, _ in rows} == set(get_args(discovery.Group))
    for _, protocol, suite in rows:
        assert hasattr(protocols, protocol)
        import_module(f"vlmhyperbench_sdk.testing.{suite}")
