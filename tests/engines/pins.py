"""What tests need that build engines from the pins of registry entries: `make clients`, and a torch for processors."""

from __future__ import annotations

import os

import pytest


def need_pins() -> None:
    """Skip the test where nothing is to be built; with `VLMHB_NEED_CLIENTS` the lack of a torch is a failure."""
    if not os.environ.get("LOADGEN_PEERS"):
        pytest.skip("`make clients` runs it")
    if not os.environ.get("PIP_FIND_LINKS"):
        message = "PIP_FIND_LINKS names no torch for a processor"
        if os.environ.get("VLMHB_NEED_CLIENTS"):
            pytest.fail(message)
        pytest.skip(message)
