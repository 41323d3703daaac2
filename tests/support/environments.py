"""Prepare environments in tests: the error of one that fails, and whether a program ran for one that is there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from vlmhyperbench.domain.environments import EnvironmentSpec
from vlmhyperbench.environments.preparing import prepared
from vlmhyperbench.errors import VlmHyperBenchError


def refused(spec: EnvironmentSpec, folder: Path) -> VlmHyperBenchError:
    """Return the error of a preparation."""

    async def run() -> None:
        async with prepared(spec, folder, folder / "logs"):
            pass

    with pytest.raises(VlmHyperBenchError) as raised:
        asyncio.run(run())
    return raised.value


def lines_of_logs(folder: Path) -> dict[str, int]:
    """Return log → number of lines: every program that prepares an environment writes some."""
    return {log.name: len(log.read_text().splitlines()) for log in folder.glob("*.log")}
