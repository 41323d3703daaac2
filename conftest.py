"""What every test of the workspace shares: real servers as fixtures, verdicts that no machine's speed decides."""

import os
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.support.servers", "tests.support.stack", "tests.support.wording"]

# The same examples every time, however long they take: another example, or another machine's speed, is no verdict on a
# change. `pytest --hypothesis-profile=search` looks for counterexamples.
ANY_SPEED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("search", ANY_SPEED)
settings.register_profile("house", ANY_SPEED, derandomize=True)
settings.load_profile("house")

# Other work on this machine must not make the speeds that tests measure invalid. Each process of pytest-xdist has a
# group of its own, so what it inherits does not count.
os.environ["VLMHYPERBENCH_MEASURING_GROUP"] = uuid4().hex

TESTS = Path(__file__).parent / "tests"
LONG = (TESTS / "e2e", TESTS / "shared" / "cli", TESTS / "shared" / "local")
"""Folders whose files start stacks and measure: some take a minute."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long files, so that no process of pytest-xdist is still in one when the others have ended."""
    items.sort(key=lambda item: not any(item.path.is_relative_to(folder) for folder in LONG))
