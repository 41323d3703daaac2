"""Commands of the command line against a stack: in this process, or in one of their own as their user gives them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.stack import Stack
from vlmhyperbench.cli import exits
from vlmhyperbench.cli.main import main


@pytest.fixture
def command(stack: Stack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run a command here, whose exit code must be `code`, and return the data of its JSON."""
    monkeypatch.setenv("VLMHB_API_URL", stack.home.api_url())
    monkeypatch.setenv("VLMHB_API_KEY", stack.home.api_key())

    def run(*words: str, code: int = exits.OK) -> Any:
        assert main([*words, "--json"]) == code
        return json.loads(capsys.readouterr().out)["data"]

    return run


@pytest.fixture(scope="module")
def program(stack: Stack) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command as a program on the stack's machine, and return how it ended; it prints JSON."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "vlmhyperbench.cli.main", *words, "--json"],
            env={**os.environ, "VLMHB_HOME": str(stack.home.root)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run
