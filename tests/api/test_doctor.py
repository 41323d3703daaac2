"""What the API says of its platform: the checks of `vlmhyperbench doctor`."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import SecretStr
from sqlalchemy import update

from tests.api.conftest import Served, serving
from tests.support.builders import add_worker
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.leadership import Leadership
from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import WorkerRow
from vlmhyperbench.domain.steps import WorkerKind
from vlmhyperbench.settings import Settings

pytestmark = pytest.mark.anyio

PARTS = ["database", "Redis", "storage", "clock", "accounts"]
FLEET = ["scheduler", "workers", "versions", "heartbeats", "quarantine"]
KINDS: tuple[WorkerKind, ...] = ("inference", "evaluation", "reporting")
MACHINE = ["registries", "python", "disk"]


async def _failed(api: Served) -> dict[str, str]:
    """Return the failed checks with their details."""
    said = (await api.http.get("/doctor")).json()
    assert [check["name"] for check in said["checks"]] == PARTS + FLEET + MACHINE
    failed = {check["name"]: check["detail"] for check in said["checks"] if not check["is_ok"]}
    assert said["is_ok"] is (not failed)
    assert all(check["cure"] for check in said["checks"] if not check["is_ok"])
    return failed


async def test_a_platform_without_scheduler_and_workers_is_told_what_is_absent(
    settings: Settings, fresh_database: Database, fresh_database_url: str
) -> None:
    own = settings.model_copy(update={"database_url": SecretStr(fresh_database_url)})
    async with serving(own, fresh_database) as api:
        assert list(await _failed(api)) == ["scheduler", "workers"]
        leader = Leadership(fresh_database_url)
        assert await leader.hold()
        async with fresh_database.transaction() as session:
            for kind in KINDS:
                await add_worker(session, kind=kind)
            await session.execute(update(table_of(WorkerRow)).values(version="0.0.9"))
        failed = await _failed(api)
        await leader.close()
        assert list(failed) == ["versions"]
        assert failed["versions"].endswith(": 0.0.9")


async def test_a_broken_registry_entry_and_a_storage_that_cannot_be_written_are_named(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    folder = tmp_path / "registries" / "models"
    folder.mkdir(parents=True)
    (folder / "broken.yaml").write_text("nonsense: [", encoding="utf-8")
    async with serving(settings, database) as api:
        failed = await _failed(api)
        assert "broken.yaml" in failed["registries"]
        missing = {"X-API-Key": await api.add_key("run:read", project=f"p{uuid4().hex}")}
        assert (await api.http.get("/doctor", headers=missing)).status_code == 403
