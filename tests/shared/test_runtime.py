from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from tests.support.wording import Wording
from vlmhyperbench.errors import NotReady
from vlmhyperbench.runtime import open_runtime
from vlmhyperbench.settings import Settings

pytestmark = pytest.mark.anyio


async def test_a_runtime_is_opened_from_settings(database_url: str, redis_url: str, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, database_url=SecretStr(database_url), redis_url=SecretStr(redis_url))
    async with open_runtime(settings, name="probe") as runtime:
        async with runtime.database.transaction() as session:
            named = await session.execute(text("SELECT current_setting('application_name')"))
            assert named.scalar_one() == "probe"
            limited = await session.execute(text("SELECT current_setting('statement_timeout')"))
            assert limited.scalar_one() == "5s"
        assert await runtime.bus.is_up()
        runtime.storage.put("key", b"1")
    assert (tmp_path / "storage" / "key").read_bytes() == b"1"


async def test_without_a_stack_the_cure_is_named(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(NotReady) as refused:
        async with open_runtime(Settings(home=tmp_path)):
            pass
    wording(refused.value)
