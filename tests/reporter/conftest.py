"""What the reporter's tests share: a runtime over real servers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from vlmhyperbench.runtime import Runtime, open_runtime
from vlmhyperbench.settings import Settings


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
