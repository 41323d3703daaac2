"""Lists from a streaming replica: what is committed is listed, and where the replica cannot, the primary is read."""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from tests.api.conftest import Served, serving
from tests.api.sample_runs import answered_run
from tests.support.processes import PATIENCE_S
from tests.support.replication import Server, replicated
from vlmhyperbench.db import migrations, replica
from vlmhyperbench.db.engine import Database
from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.monitoring.recording import record_to
from vlmhyperbench.settings import Settings

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    folder = Path(tempfile.mkdtemp(prefix="vlmhb-repl-"))  # a socket's path must be short
    with replicated(folder, "bench") as pair:
        migrations.upgrade(pair[0].url)
        yield pair


class LockedReplica(threading.Thread):
    """Makes a list wait for a lock of the replica alone, and ends its connection.

    The primary locks the table of runs, the replica repeats that, and only the primary releases it.
    """

    def __init__(self, primary: Server, standby: Server) -> None:
        super().__init__(daemon=True)
        self._standby = standby
        self._locking = psycopg.connect(primary.plain_url)
        self._locking.execute("LOCK TABLE run IN ACCESS EXCLUSIVE MODE")
        primary.query("SELECT pg_switch_wal()")
        self._wait_for(
            "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND relation = 'run'::regclass"
        )

    def run(self) -> None:
        waiting = "FROM pg_stat_activity WHERE application_name = 'api-lists' AND wait_event_type = 'Lock'"
        self._wait_for(f"SELECT count(*) {waiting}")
        self._standby.query("SELECT pg_wal_replay_pause()")
        self._locking.close()
        self._standby.query(f"SELECT count(pg_terminate_backend(pid)) {waiting}")

    def release(self) -> None:
        self.join(PATIENCE_S)
        self._standby.query("SELECT pg_wal_replay_resume()")

    def _wait_for(self, condition: str) -> None:
        while not self._standby.query(condition):
            time.sleep(0.01)


class Counts(Counter[tuple[str, str]]):
    """The lists that were read, by server and cause."""

    def count(self, name: str, amount: float, labels: dict[str, str]) -> None:
        if name == "list_reads_total":
            self[labels["server"], labels["cause"]] += int(amount)

    def observe(self, name: str, seconds: float, labels: dict[str, str]) -> None:
        pass

    def set(self, name: str, value: float, labels: dict[str, str]) -> None:
        pass


@pytest.fixture
def reads() -> Iterator[Counts]:
    counts = Counts()
    record_to(counts)
    yield counts
    record_to(None)


@asynccontextmanager
async def api_with(settings: Settings, primary: Server, replica_url: str, wait_s: float) -> AsyncIterator[Served]:
    changed = {
        "database_url": SecretStr(primary.url),
        "database_replica_url": SecretStr(replica_url),
        "database_replica_wait_s": wait_s,
    }
    database = Database(primary.url)
    try:
        async with serving(settings.model_copy(update=changed), database) as served:
            yield served
    finally:
        await database.close()


@pytest.fixture
async def served(settings: Settings, servers: tuple[Server, Server]) -> AsyncIterator[Served]:
    """An API whose lists wait for the replica as long as it takes."""
    async with api_with(settings, servers[0], servers[1].url, 5) as api:
        yield api


async def submit(api: Served) -> str:
    answer = await api.http.post("/runs", json={"run": "simulated-instant"})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def ids(api: Served, path: str = "/runs/rows") -> list[str]:
    answer = await api.http.get(path, params={"limit": 500})
    assert answer.status_code == 200, answer.text
    return [row["id"] for row in answer.json()["items"]]


async def test_what_was_just_created_is_in_the_list_of_the_replica(served: Served, reads: Counts) -> None:
    for _ in range(5):
        created = await submit(served)
        assert created in await ids(served)
        assert created in await ids(served, "/runs")
    assert reads == {("replica", "current"): 10}


async def test_every_list_is_read_from_the_replica_and_details_are_not(
    served: Served, reads: Counts, tmp_path: Path
) -> None:
    run_id = await answered_run(served, tmp_path, ["a", "b", None], right=[True, False, False])
    lists = [
        "/runs/rows",
        "/runs/columns",
        "/runs",
        "/experiments",
        "/reports",
        "/points?columns=total",
        f"/results?run_id={run_id}",
        f"/runs/{run_id}/samples",
        f"/runs/{run_id}/samples?where=outcome=scored",
        f"/runs/{run_id}/sample-groups",
    ]
    for path in lists:
        answer = await served.http.get(path)
        assert answer.status_code == 200, answer.text
    answer = await served.http.get("/leaderboard?task=none")
    assert answer.status_code == 404
    assert reads == {("replica", "current"): len(lists) + 1}
    assert (await served.http.get(f"/runs/{run_id}")).status_code == 200
    assert reads.total() == len(lists) + 1


async def test_a_replica_that_lags_is_not_read(
    settings: Settings, servers: tuple[Server, Server], reads: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "BEHIND_S", 0.0)
    async with api_with(settings, servers[0], servers[1].url, 0.05) as api:
        servers[1].query("SELECT pg_wal_replay_pause()")
        try:
            created = await submit(api)
            assert created in await ids(api)
            assert reads == {("primary", "behind"): 1}
        finally:
            servers[1].query("SELECT pg_wal_replay_resume()")
        while not reads["replica", "current"]:
            assert created in await ids(api)


async def test_a_replica_that_is_away_is_left_and_read_again_when_it_is_back(
    served: Served, servers: tuple[Server, Server], reads: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "AWAY_S", 0.0)
    await ids(served)
    servers[1].stop()
    try:
        created = await submit(served)
        assert created in await ids(served)
        assert reads["primary", "away"] == 1
    finally:
        servers[1].start()
    assert created in await ids(served)
    assert reads["replica", "current"] == 2


async def test_a_replica_that_fails_while_it_is_read_costs_the_client_nothing(
    served: Served, servers: tuple[Server, Server], reads: Counts
) -> None:
    created = await submit(served)
    await ids(served)
    locked = LockedReplica(*servers)
    locked.start()
    try:
        assert created in await ids(served)
    finally:
        locked.release()
    assert reads == {("replica", "current"): 2, ("primary", "away"): 1}


@pytest.mark.parametrize("is_other", [True, False])
async def test_a_server_that_is_no_replica_of_the_database_is_not_read(
    settings: Settings, servers: tuple[Server, Server], reads: Counts, database_url: str, is_other: bool
) -> None:
    url = database_url if is_other else servers[0].url
    async with api_with(settings, servers[0], url, 0.1) as api:
        created = await submit(api)
        assert created in await ids(api)
    assert reads == {("primary", "other"): 1}


async def test_a_check_says_what_keeps_the_replica_from_being_read(servers: tuple[Server, Server]) -> None:
    primary, standby = servers

    async def code(url: str) -> str:
        try:
            await replica.check_replica(primary.url, url, wait_s=0.05)
        except VlmHyperBenchError as error:
            return error.code
        return "none"

    primary.query("SELECT txid_current()")
    assert await code(primary.url) == "replica_other"
    assert await code(f"{standby.url}-nowhere") == "replica_away"
    standby.query("SELECT pg_wal_replay_pause()")
    try:
        primary.query("CREATE TABLE later (id int)")
        assert await code(standby.url) == "replica_behind"
    finally:
        standby.query("SELECT pg_wal_replay_resume()")
    while await code(standby.url) == "replica_behind":
        pass
    assert await code(standby.url) == "none"
