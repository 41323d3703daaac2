"""What the SDK's page shows is true: its plugins keep the contract, and what it names exists."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

from tests.support.pages import execute
from vlmhyperbench_sdk import discovery, protocols
from vlmhyperbench_sdk.errors import InvalidInput, PluginFailure
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.testing.metrics import check_metric

PAGE = Path(__file__).parents[2] / "shared" / "sdk" / "README.md"


def test_the_plugins_of_the_page_keep_their_contracts() -> None:
    shown = execute(PAGE)
    first_word, sums = shown["FirstWord"], shown["Sums"]
    measures = first_word().measure(["Yes, it is", "no"], [["yes"], []])  # type: ignore[operator]
    assert (list(measures.values), measures.reasons[1]) == ([0.0, None], "no_reference")
    with pytest.raises(InvalidInput):
        sums(DatasetSource(params={"cuont": 1}))  # type: ignore[operator]


def test_the_suite_of_the_page_notices_a_metric_that_breaks_its_contract() -> None:
    shown = execute(PAGE)
    broken = type("Broken", (shown["FirstWord"],), {"combine": lambda self, sums: 0.5})  # type: ignore[arg-type]
    with pytest.raises(PluginFailure):
        check_metric(broken())


def test_what_the_page_names_exists() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for module, name in re.findall(r"`(vlmhyperbench_sdk(?:\.\w+)+)\.(\w+)`", text):
        found = import_module(module) if name.islower() and "_" not in name else None
        assert found is not None or hasattr(import_module(module), name), f"{module}.{name}"
    for protocol in ("Dataset", "PromptStrategy", "Metric", "Backend"):
        assert hasattr(protocols, protocol)
    groups = set(re.findall(r"^\| `(vlmhyperbench\.\w+)`", text, flags=re.MULTILINE))
    assert groups == {f"vlmhyperbench.{group}" for group in get_args(discovery.Group)} - {"vlmhyperbench.reports"}
