"""Prepare environments in tests: where, the error of one that fails, and whether a program ran for one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from vlmhyperbench.domain.environments import EnvironmentSpec
from vlmhyperbench.environments.preparing import prepared
from vlmhyperbench.environments.store import EnvironmentStore
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.errors import VlmHyperBenchError


def workshop_in(folder: Path) -> Workshop:
    """Return where environments are built in a folder, with logs and secrets in it."""
    return Workshop(store=EnvironmentStore(folder), logs=folder / "logs", secrets_dir=folder / "secrets")


def refused(spec: EnvironmentSpec, folder: Path) -> VlmHyperBenchError:
    """Return the error of a preparation."""

    async def run() -> None:
        async with prepared(spec, workshop_in(folder)):
            pass

    with pytest.raises(VlmHyperBenchError) as raised:
        asyncio.run(run())
    return raised.value


def lines_of_logs(folder: Path) -> dict[str, int]:
    """Return log → number of lines: every program that prepares an environment writes some."""
    return {log.name: len(log.read_text().splitlines()) for log in folder.glob("*.log")}
