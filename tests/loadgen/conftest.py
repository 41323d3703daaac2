"""Fixtures of the load generator's tests."""

from __future__ import annotations

import pytest

from tests.loadgen.driving import CAN_COMPILE
from vlmhyperbench_loadgen.receiving import INTERPRETED


@pytest.fixture(params=["compiled", "interpreted"])
def receiver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The receiver of the load generators that a test starts; the test runs once with each."""
    if request.param == "interpreted":
        monkeypatch.setenv(INTERPRETED, "1")
    else:
        monkeypatch.delenv(INTERPRETED, raising=False)
        if not CAN_COMPILE:
            pytest.skip("there is no C compiler")
    return str(request.param)
