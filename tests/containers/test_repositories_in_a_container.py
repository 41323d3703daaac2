"""The tests of the repositories, against Postgres in a container."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.containers.composed import ROOT, built
from tests.containers.room import need


@pytest.mark.timeout(900)
def test_the_repositories_work_on_postgres_in_a_container() -> None:
    need("docker")
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/shared/db/test_repositories.py"]
    environment = {**os.environ, "VLMHB_TEST_POSTGRES_IMAGE": built("postgres")}
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=600, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
