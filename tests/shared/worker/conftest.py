"""A runtime on real servers and a room of jobs, for the tests of claims."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.engine_room import EngineRoom
from vlmhyperbench.runtime import Runtime, open_runtime
from vlmhyperbench.settings import Settings


@pytest.fixture
async def runtime(tmp_path: Path, fresh_database_url: str, redis_url: str) -> AsyncIterator[Runtime]:
    values = {"home": tmp_path, "database_url": fresh_database_url, "redis_url": redis_url}
    async with open_runtime(Settings.model_validate(values)) as runtime:
        yield runtime


@pytest.fixture
def room(runtime: Runtime) -> EngineRoom:
    return EngineRoom(runtime.database)
