"""What tests need that build engines from the pins of registry entries: `make clients`, and a torch for processors."""

from __future__ import annotations

import os

import pytest

from tests.support.needs import skip_or_fail


def need_pins() -> None:
    """Skip the test where nothing is to be built; with `VLMHB_NEED_CLIENTS` the lack of a torch is a failure."""
    if not os.environ.get("LOADGEN_PEERS"):
        pytest.skip("`make clients` runs it")
    if not os.environ.get("PIP_FIND_LINKS"):
        skip_or_fail("PIP_FIND_LINKS names no torch for a processor")
