"""The whole API inside the test process: uvicorn on a free port, real Postgres, real Valkey."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
import uvicorn
from pydantic import SecretStr

from tests.support.processes import PATIENCE_S
from vlmhyperbench.db import api_keys
from vlmhyperbench.db.engine import Database
from vlmhyperbench.domain.api_keys import ALL_SCOPES, hmac_of, prefix_of
from vlmhyperbench.domain.tickets import write_ticket
from vlmhyperbench.settings import Settings
from vlmhyperbench.storage import Storage, open_storage
from vlmhyperbench_api.main import server_config

PEPPER = "pepper"


@dataclass(frozen=True, slots=True)
class Served:
    """A running API."""

    url: str
    key: str
    database: Database
    storage: Storage
    http: httpx2.AsyncClient

    @property
    def live_url(self) -> str:
        return self.url.replace("http", "ws") + "/api/v1/live"

    async def ending_session(self, *, seconds: int) -> str:
        """Sign a browser in, and return the header `Cookie` of a session of the same key that ends so soon."""
        link = (await self.http.post("/tickets")).json()["path"]
        async with httpx2.AsyncClient(base_url=self.url, trust_env=False, timeout=PATIENCE_S) as browser:
            await browser.get(link)
            ((name, _),) = browser.cookies.items()
        session = write_ticket(
            "session",
            prefix=prefix_of(self.key) or "",
            expires_at=int(time.time()) + seconds,
            nonce=secrets.token_urlsafe(16),
            pepper=PEPPER,
            key_hmac=hmac_of(self.key, PEPPER),
        )
        return f"{name}={session}"

    async def add_key(self, *scopes: str, project: str = "default", expires: object = None) -> str:
        """Register a key and return its secret."""
        key = f"test{secrets.token_hex(4)}_{secrets.token_urlsafe(32)}"
        async with self.database.transaction() as session:
            await api_keys.add(
                session,
                prefix=prefix_of(key) or "",
                hmac_sha256=hmac_of(key, PEPPER),
                principal=f"tester-{project}",
                project_id=project,
                scopes=scopes or [ALL_SCOPES],
                expires_at=expires,
            )
        return key


@pytest.fixture
def settings(tmp_path: Path, database_url: str, redis_url: str) -> Settings:
    return Settings(
        home=tmp_path,
        database_url=SecretStr(database_url),
        redis_url=SecretStr(redis_url),
        storage_url=str(tmp_path / "storage"),
        key_pepper=SecretStr(PEPPER),
        registries=Path(__file__).parents[2] / "registries",
    )


@asynccontextmanager
async def serving(settings: Settings, database: Database) -> AsyncIterator[Served]:
    """Serve on a free port until the block ends."""
    config = server_config(settings)
    config.port, config.timeout_graceful_shutdown = 0, 1
    server = uvicorn.Server(config)
    serving_task = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
        assert not serving_task.done(), serving_task.exception()
    port = server.servers[0].sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    storage = open_storage(settings.storage_url)
    async with httpx2.AsyncClient(base_url=f"{url}/api/v1", trust_env=False, timeout=PATIENCE_S) as http:
        served = Served(url, "", database, storage, http)
        key = await served.add_key()
        http.headers["X-API-Key"] = key
        yield Served(url, key, database, storage, http)
    server.should_exit = True
    await serving_task


@pytest.fixture
async def api(settings: Settings, database: Database) -> AsyncIterator[Served]:
    async with serving(settings, database) as served:
        yield served


@pytest.fixture
def submit(api: Served) -> Callable[..., object]:
    """Submit a run of the simulated engine."""

    async def submit_run(name: str = "run", **headers: str) -> httpx2.Response:
        return await api.http.post("/runs", json={"run": "simulated-instant", "name": name}, headers=headers)

    return submit_run
