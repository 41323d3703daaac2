"""What a test needs that not every machine has: where it is missing, the test is skipped, or fails if it must run."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def skip_or_fail(missing: str, variable: str = "VLMHB_NEED_CLIENTS") -> NoReturn:
    """Skip a test because of what is missing; with this variable, which `make` sets, that is a failure."""
    if os.environ.get(variable):
        pytest.fail(missing)
    pytest.skip(missing)
