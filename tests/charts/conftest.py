"""The tests of the chart need helm; without it they are skipped, or fail where it must be there."""

from __future__ import annotations

import pytest

from tests.charts.rendering import TOOLS
from tests.support.needs import skip_or_fail


@pytest.fixture(autouse=True)
def _helm() -> None:
    if not (TOOLS / "helm").exists():
        skip_or_fail("helm is not installed: make .venvs/charts/bin/helm", "VLMHB_NEED_CHARTS")
