from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from kombu.connection import Connection

from tests.support.processes import PATIENCE_S
from vlmhyperbench.errors import Conflict
from vlmhyperbench.local.valkey import Valkey

OWNER = """
import os, sys
from pathlib import Path
from vlmhyperbench.local.valkey import Valkey
server = Valkey(Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, decode_responses=True)


def _kill(server: Valkey) -> None:
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    while server.is_running():
        threading.Event().wait(0.01)


def test_a_restarted_server_keeps_its_data_and_url(make_valkey: Callable[[], Valkey]) -> None:
    server = make_valkey()
    url = server.start()
    assert server.start() == url
    with _client(url) as client:
        client.set("key", "value")
    server.stop()
    server.stop()
    assert server.pid is None
    assert server.start() == url
    with _client(url) as client:
        assert client.get("key") == "value"


def test_no_message_is_evicted_and_every_write_is_appended(make_valkey: Callable[[], Valkey]) -> None:
    with _client(make_valkey().start()) as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        assert client.config_get("bind") == {"bind": "127.0.0.1"}


def test_clients_need_the_password_which_is_on_no_command_line(
    make_valkey: Callable[[], Valkey], tmp_path: Path
) -> None:
    server = make_valkey()
    url = server.start()
    password = url.split("@", maxsplit=1)[0].split(":")[-1]
    with (
        redis.Redis.from_url(url.replace(password, "guess")) as client,
        pytest.raises(redis.AuthenticationError),
    ):
        client.ping()
    assert password not in Path(f"/proc/{server.pid}/cmdline").read_text()
    holding = [path for path in tmp_path.rglob("*") if path.is_file() and password.encode() in path.read_bytes()]
    assert holding
    assert {stat.S_IMODE(path.stat().st_mode) for path in holding} == {0o600}


def test_celerys_transport_can_use_it(make_valkey: Callable[[], Valkey]) -> None:
    with Connection(make_valkey().start()) as connection:
        queue = connection.SimpleQueue("doorbell")
        queue.put({"job_id": "1"})
        message = queue.get(timeout=PATIENCE_S)
        assert message.payload == {"job_id": "1"}
        message.ack()
        queue.close()


def test_a_killed_server_starts_again_at_the_same_url(make_valkey: Callable[[], Valkey]) -> None:
    server = make_valkey()
    url = server.start()
    _kill(server)
    assert server.start() == url
    with _client(url) as client:
        assert client.ping()


def test_the_server_dies_with_its_owner_and_another_owner_can_start_it(tmp_path: Path) -> None:
    owner = subprocess.run(
        [sys.executable, "-c", OWNER, str(tmp_path / "vk")],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert owner.returncode == -signal.SIGKILL, owner.stderr
    server = Valkey(tmp_path / "vk")
    with _client(server.start()) as client:
        assert client.ping()
    server.stop()


def test_an_orphan_server_is_replaced(tmp_path: Path) -> None:
    first = Valkey(tmp_path / "vk")
    url = first.start()
    left_behind = first.pid
    first._lock.release()
    second = Valkey(tmp_path / "vk")
    assert second.start() == url
    assert not first.is_running()
    assert second.pid != left_behind
    second.stop()


@pytest.mark.parametrize(
    "pid", [str(os.getpid()), "99999999", "", "nonsense"], ids=["alive", "nobody", "empty", "nonsense"]
)
def test_a_stale_pid_file_does_not_prevent_a_start(make_valkey: Callable[[], Valkey], pid: str) -> None:
    server = make_valkey()
    url = server.start()
    server.stop()
    (server._folder / "server.pid").write_text(pid)
    assert server.start() == url


def test_a_taken_port_is_replaced_by_a_free_one(make_valkey: Callable[[], Valkey]) -> None:
    server = make_valkey()
    url = server.start()
    server.stop()
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", int(url.split(":")[-1].split("/")[0])))
        taken.listen()
        other = server.start()
        assert other != url
        with _client(other) as client:
            assert client.ping()


def test_a_damaged_append_only_file_is_renamed(make_valkey: Callable[[], Valkey]) -> None:
    server = make_valkey()
    with _client(server.start()) as client:
        for number in range(100):
            client.set(f"key{number}", "value" * 100)
    server.stop()
    log = next(server._folder.rglob("*.incr.aof"))
    log.write_bytes(b"*3\r\nnonsense" + log.read_bytes())
    with _client(server.start()) as client:
        assert client.dbsize() == 0
    assert len(list(server._folder.glob("appendonlydir.damaged-*"))) == 1


def test_a_folder_has_one_owner(make_valkey: Callable[[], Valkey]) -> None:
    server = make_valkey()
    server.start()
    with pytest.raises(Conflict, match="Valkey"):
        Valkey(server._folder).start()
    assert server.is_running()


def test_the_path_of_a_server_may_contain_spaces_and_quotes(tmp_path: Path) -> None:
    server = Valkey(tmp_path / 'a "quoted" place')
    with _client(server.start()) as client:
        assert client.ping()
    server.stop()
