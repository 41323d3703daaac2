"""Fixtures of the reporter's tests: a runtime over real servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from vlmhyperbench.runtime import Runtime, open_runtime
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.children import CpuChildren


@pytest.fixture
async def runtime(database_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[Runtime]:
    settings = Settings(
        home=tmp_path,
        database_url=SecretStr(database_url),
        redis_url=SecretStr(redis_url),
        storage_url=str(tmp_path / "storage"),
    )
    async with open_runtime(settings, name="test") as opened:
        yield opened


@pytest.fixture(scope="module")
def cpu() -> Iterator[CpuChildren]:
    """Share the children between tests, so that their imports happen once."""
    children = CpuChildren()
    yield children
    children.close()
