"""The supervisor as a real process that keeps real servers, the API and the scheduler."""

from __future__ import annotations

import http.server
import json
import os
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.processes import PATIENCE_S, is_alive, wait_until_ended
from vlmhyperbench.errors import InvalidInput, Unavailable
from vlmhyperbench.local.supervisor import control
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.local.supervisor.lock import StackLock, holder
from vlmhyperbench.local.supervisor.services import environment_of_services, inference_service, stages_of

SERVICES = ("api", "scheduler")


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    pause = threading.Event()
    while not holds():
        assert time.monotonic() < deadline, "It did not come to that."
        pause.wait(0.05)


def _up(home: Home) -> bool:
    return control.up(home, host="127.0.0.1", port=0, services=SERVICES)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path / "home")
    yield made
    control.kill(made)


def _pids(home: Home) -> dict[str, int]:
    return {process.name: process.pid for process in control.status(home).processes if process.pid is not None}


def test_a_stack_reports_its_start_restarts_dead_processes_and_stops_cleanly(home: Home) -> None:
    reported: list[str] = []
    started = control.up(
        home, host="127.0.0.1", port=0, services=SERVICES, report=lambda line: reported.append(line.get("what", ""))
    )
    assert started
    assert reported == ["postgres", "valkey", "migrations", "scheduler", "api"]

    assert not _up(home), "a second start does nothing"

    status = control.status(home)
    assert [process.name for process in status.processes] == [
        "supervisor",
        "fork-server",
        "postgres",
        "valkey",
        "scheduler",
        "api",
    ]
    assert all(process.state == "running" and process.pss_bytes for process in status.processes)
    assert (home.settings_file.stat().st_mode & 0o777, home.api_key_file.stat().st_mode & 0o777) == (0o600, 0o600)

    before = _pids(home)
    for name in ("api", "postgres", "valkey"):
        os.kill(before[name], signal.SIGKILL)
    _until(lambda: all(_pids(home).get(name, before[name]) != before[name] for name in ("api", "postgres", "valkey")))
    restarts = {process.name: process.restarts for process in control.status(home).processes}
    assert (restarts["api"], restarts["postgres"], restarts["valkey"]) == (1, 1, 1)
    assert restarts["scheduler"] == 0
    _until(lambda: _answers(home))

    pids = _pids(home)
    assert control.down(home)
    assert not any(map(is_alive, pids.values()))
    assert not control.is_up(home)
    assert not control.down(home), "there is nothing to stop"
    assert not home.processes_file.exists()


def _answers(home: Home) -> bool:
    request = urllib.request.Request(f"{home.api_url()}/api/v1/runs", headers={"X-API-Key": home.api_key() or ""})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer) == {"items": [], "next": None}
    except OSError:
        return False


def test_two_simultaneous_starts_both_return_with_a_ready_stack(home: Home) -> None:
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(_up, home)
        _until(lambda: control.is_up(home))
        second = pool.submit(_up, home)
        assert second.result() is False
        assert _answers(home)
        assert first.result() is True


def test_a_killed_supervisor_leaves_no_orphan_and_the_next_one_starts(home: Home) -> None:
    _up(home)
    first = _pids(home)
    os.kill(first["supervisor"], signal.SIGKILL)
    wait_until_ended(*first.values())
    _until(lambda: not Path(f"/proc/{first['supervisor']}").exists())  # its exit status has been read
    assert not control.is_up(home)
    assert _up(home)
    assert control.down(home)


def test_if_a_service_cannot_start_the_error_quotes_its_log_and_the_stack_stops(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLMHB_REGISTRIES", "/no/such/folder")
    with pytest.raises(Unavailable, match="no/such/folder") as refused:
        _up(home)
    assert str(home.log_of("api")) in refused.value.cure
    _until(lambda: not control.is_up(home))


def test_another_server_on_the_port_is_not_mistaken_for_the_api(home: Home) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    others: list[http.server.HTTPServer] = []

    def take_the_port(message: Mapping[str, str]) -> None:
        if message.get("what") == "postgres":
            others.append(http.server.HTTPServer(("127.0.0.1", port), _AlwaysReady))
            threading.Thread(target=others[0].serve_forever, daemon=True).start()

    with pytest.raises(Unavailable) as refused:
        control.up(home, host="127.0.0.1", port=port, services=SERVICES, report=take_the_port)
    assert str(home.log_of("api")) in refused.value.cure
    others[0].shutdown()
    others[0].server_close()


class _AlwaysReady(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert holder(path) is None
    first, second = StackLock(path), StackLock(path)
    assert first.acquire()
    assert holder(path) == os.getpid()
    assert not second.acquire()
    first.release()
    assert holder(path) is None
    assert second.acquire()
    second.release()


def test_the_pid_of_a_dead_supervisor_in_the_lock_file_does_not_hold_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text(str(os.getpid()))
    assert holder(path) is None


def test_a_home_on_a_full_disk_is_refused(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vlmhyperbench.local.supervisor.home.NEEDED_BYTES", 2**60)
    with pytest.raises(Unavailable, match="MiB") as refused:
        home.prepare()
    assert refused.value.code == "disk_full"


def test_a_stack_for_a_device_that_does_not_exist_is_refused_before_anything_starts(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLMHB_DEVICES", "GPU-7")
    reported: list[str] = []
    with pytest.raises(Unavailable, match="no device 'GPU-7'") as refused:
        control.up(home, host="127.0.0.1", port=0, report=lambda line: reported.append(line.get("what", "")))
    assert (refused.value.code, reported) == ("no_device", [])
    assert not control.is_up(home)


def test_services_are_chosen_by_name() -> None:
    workers = [inference_service(f"inference-{number}", {}) for number in range(2)]

    def chosen(*names: str) -> list[str]:
        return [service.name for stage in stages_of(names, workers) for service in stage]

    assert chosen("api") == ["api"]
    assert chosen("inference", "scheduler") == ["scheduler", "inference-0", "inference-1"]
    assert len(chosen()) == 6
    with pytest.raises(InvalidInput, match="nonsense"):
        chosen("nonsense")


def test_services_inherit_settings_but_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLMHB_TIMERS__LEASE_S", "60")
    monkeypatch.setenv("VLMHB_DATABASE_URL", "postgresql://secret")
    given = environment_of_services(home="/h", api_port=5)
    assert given["VLMHB_TIMERS__LEASE_S"] == "60"
    assert (given["VLMHB_HOME"], given["VLMHB_API_PORT"]) == ("/h", "5")
    assert "VLMHB_DATABASE_URL" not in given
