from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url

from tests.support.processes import wait_until_ended
from tests.support.wording import Wording
from vlmhyperbench.errors import Conflict, Unavailable
from vlmhyperbench.local.postgres import Postgres

OWNER = """
import os, sys
from pathlib import Path
from vlmhyperbench.local.postgres import Postgres
server = Postgres(Path(sys.argv[1]), is_durable=False)
server.start()
print(server.pid, flush=True)
os.kill(os.getpid(), {signal})
"""


def _query(url: str, statement: str, *, password: str | None = None) -> object:
    parsed = make_url(url).set(drivername="postgresql")
    if password is not None:
        parsed = parsed.set(password=password)
    with psycopg.connect(parsed.render_as_string(hide_password=False), autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone() if statement.startswith(("SELECT", "SHOW")) else None
        if row is None:
            connection.execute(statement.encode())
            return None
        return row[0]


def test_a_restarted_server_keeps_its_data_and_url(make_postgres: Callable[[], Postgres]) -> None:
    server = make_postgres()
    url = server.start()
    assert server.start() == url
    _query(url, "CREATE TABLE probe (a int)")
    server.stop()
    server.stop()
    assert server.pid is None
    assert server.start() == url
    assert _query(url, "SELECT count(*) FROM probe") == 0


def test_clients_connect_only_over_the_socket_and_with_the_password(
    make_postgres: Callable[[], Postgres], tmp_path: Path
) -> None:
    server = make_postgres()
    url = server.start()
    assert _query(url, "SHOW listen_addresses") == ""
    assert _query(url, "SHOW password_encryption") == "scram-sha-256"
    with pytest.raises(psycopg.OperationalError, match='user "vlmhyperbench"'):
        _query(url, "SELECT 1", password="guess")
    assert stat.S_IMODE(server.socket_folder.stat().st_mode) == 0o700
    passwords = list(tmp_path.rglob("password"))
    assert [stat.S_IMODE(path.stat().st_mode) for path in passwords] == [0o600]
    assert _query(url, "SELECT count(*) FROM pg_hba_file_rules WHERE auth_method <> 'scram-sha-256'") == 0


def test_the_durable_server_waits_until_data_is_on_disk(tmp_path: Path) -> None:
    server = Postgres(tmp_path / "pg")
    url = server.start()
    try:
        assert [_query(url, f"SHOW {name}") for name in ("fsync", "synchronous_commit", "full_page_writes")] == [
            "on"
        ] * 3
    finally:
        server.stop()


def test_a_killed_server_restarts_with_all_committed_rows(make_postgres: Callable[[], Postgres]) -> None:
    server = make_postgres()
    url = server.start()
    _query(url, "CREATE TABLE probe (a int)")
    assert server.pid is not None
    pid = server.pid
    os.kill(pid, signal.SIGKILL)
    wait_until_ended(pid)
    while server.is_running():
        threading.Event().wait(0.01)
    assert server.start() == url
    assert _query(url, "SELECT count(*) FROM probe") == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_dies_with_its_owner_and_another_owner_can_start_it(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "pg"
    owner = subprocess.run(
        [sys.executable, "-c", OWNER.format(signal=int(number)), str(folder)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert owner.returncode == -number, owner.stderr
    wait_until_ended(int(owner.stdout))
    server = Postgres(folder, is_durable=False)
    assert _query(server.start(), "SELECT 1") == 1
    server.stop()


def test_an_orphan_server_is_replaced(tmp_path: Path) -> None:
    first = Postgres(tmp_path / "pg", is_durable=False)
    first.start()
    left_behind = first.pid
    first._lock.release()
    second = Postgres(tmp_path / "pg", is_durable=False)
    assert _query(second.start(), "SELECT 1") == 1
    assert not first.is_running()
    assert second.pid != left_behind
    second.stop()


@pytest.mark.parametrize(
    "pid", [str(os.getpid()), "99999999", "", "nonsense"], ids=["alive", "nobody", "empty", "nonsense"]
)
def test_a_stale_pid_file_does_not_prevent_a_start(
    make_postgres: Callable[[], Postgres], tmp_path: Path, pid: str
) -> None:
    server = make_postgres()
    url = server.start()
    server.stop()
    data = next(tmp_path.rglob("PG_VERSION")).parent
    (data / "postmaster.pid").write_text(f"{pid}\n{data}\n1\n5432\n{server.socket_folder}\n\n   1  1\nready   \n")
    (server.socket_folder / ".s.PGSQL.5432").touch()
    (server.socket_folder / ".s.PGSQL.5432.lock").write_text(f"{pid}\n")
    assert server.start() == url
    assert _query(url, "SELECT 1") == 1


def test_an_incomplete_cluster_is_created_again(make_postgres: Callable[[], Postgres], tmp_path: Path) -> None:
    server = make_postgres()
    half = server._folder / "data.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18")
    assert _query(server.start(), "SELECT 1") == 1


def test_a_folder_has_one_owner(make_postgres: Callable[[], Postgres]) -> None:
    server = make_postgres()
    url = server.start()
    with pytest.raises(Conflict, match="already run"):
        Postgres(server._folder).start()
    assert _query(url, "SELECT 1") == 1


def test_if_the_path_is_too_long_for_a_socket_another_private_folder_is_used(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 25) / "pg"
    server = Postgres(folder, is_durable=False)
    url = server.start()
    try:
        assert not server.socket_folder.is_relative_to(tmp_path)
        assert stat.S_IMODE(server.socket_folder.stat().st_mode) == 0o700
        assert _query(url, "SELECT 1") == 1
    finally:
        server.stop()
    assert not server.socket_folder.exists()


def test_a_socket_folder_of_another_user_is_refused(tmp_path: Path, wording: Wording) -> None:
    server = Postgres(tmp_path / "pg", is_durable=False)
    (tmp_path / "pg").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "pg" / "run").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Conflict, match=re.escape(str(tmp_path / "pg" / "run"))) as refused:
        server.start()
    wording(refused.value)


def test_the_error_of_a_server_that_cannot_start_quotes_its_log(make_postgres: Callable[[], Postgres]) -> None:
    server = make_postgres()
    server.start()
    server.stop()
    (server._data / "postgresql.conf").write_text("nonsense = on\n")
    with pytest.raises(Unavailable, match="nonsense"):
        server.start()
    assert not server.is_running()


def test_the_server_outlives_the_thread_that_started_it(make_postgres: Callable[[], Postgres]) -> None:
    server = make_postgres()
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    assert _query(server.url, "SELECT 1") == 1
