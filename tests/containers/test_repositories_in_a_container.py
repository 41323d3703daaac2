"""The tests of repositories, claims and bus, against Postgres and Valkey in containers of testcontainers."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from tests.containers.composed import ROOT, built, docker
from tests.containers.room import need
from tests.support.servers import POSTGRES_IMAGE, VALKEY_IMAGE

TESTS = ("tests/shared/db/test_repositories.py", "tests/shared/db/test_claims.py", "tests/shared/test_bus.py")


@pytest.mark.timeout(900)
def test_repositories_claims_and_bus_work_on_servers_in_containers() -> None:
    need("docker")
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    environment = {**os.environ, POSTGRES_IMAGE: built("postgres"), VALKEY_IMAGE: built("valkey")}
    begun = time.time()
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=600, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
    starts = ("--filter", "type=container", "--filter", "event=start", "--format", "{{.From}}")
    started = docker("events", "--since", f"{begun:.3f}", "--until", f"{time.time():.3f}", *starts).split()
    assert {built("postgres"), built("valkey")} <= set(started), "the tests use servers in containers"
