"""What every test of the workspace shares: real servers as fixtures, verdicts that no machine's speed decides."""

import os
from uuid import uuid4

from hypothesis import settings

pytest_plugins = ["tests.support.servers", "tests.support.stack", "tests.support.wording"]

settings.register_profile("house", deadline=None)
settings.load_profile("house")

# What runs beside these tests on the same machine is not theirs: no speed of theirs is void for it. Each process of
# pytest-xdist has a group of its own, so what it inherits does not count.
os.environ["VLMHB_MEASURING_GROUP"] = uuid4().hex
