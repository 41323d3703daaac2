"""How `vlmhyperbench load` reaches a server: over a Unix socket, and with a maximum of connections."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.shared.cli.measuring import load, measured
from tests.support.wording import Wording
from vlmhyperbench.cli.output_flags import OutputFlags
from vlmhyperbench.load.record import read_record
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_simulated.process import SimulatedProcess
from vlmhyperbench_simulated.simulation import Simulation

TEXT = OutputFlags(quiet=True)


def test_a_server_on_a_unix_socket_is_measured(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "engine.sock"
    with SimulatedProcess(Simulation(tokens=3), unix_socket=str(path)):
        data = measured(capsys, "http://localhost", unix_socket=path, requests=12, concurrency=3)
        swept = measured(capsys, "http://localhost", unix_socket=path, requests=4, sweep="concurrency=1,2")
        load("http://localhost", model="m", unix_socket=path, requests=2, output=TEXT)
    assert (data["requests"]["ok"], data["tokens"]["completion"]) == (12, 36)
    assert (data["client"]["transport"], data["client"]["instants"]) == ("unix", "process")
    assert [point["result"]["requests"]["ok"] for point in swept["points"]] == [4, 4]
    assert "unix" in capsys.readouterr().out


def test_of_two_servers_only_the_first_is_reached_over_the_socket(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "engine.sock"
    with (
        SimulatedProcess(Simulation(tokens=1), unix_socket=str(path)),
        SimulatedProcess(Simulation(tokens=2)) as second,
    ):
        data = measured(capsys, "http://localhost", unix_socket=path, against=second.url, repeats=2, requests=4)
    for pair in data["pairs"]:
        assert (pair["first"]["client"]["transport"], pair["first"]["tokens"]["completion"]) == ("unix", 4)
        assert (pair["second"]["client"]["transport"], pair["second"]["tokens"]["completion"]) == ("tcp", 8)


def test_a_path_that_is_not_a_socket_is_refused(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(NotFound, match=r"nothing\.sock") as missing:
        load("http://localhost", model="m", unix_socket=tmp_path / "nothing.sock")
    wording(missing.value)
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="file") as refused:
        load("http://localhost", model="m", unix_socket=tmp_path / "file")
    wording(refused.value)


def test_a_socket_whose_path_is_too_long_for_an_address_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("d" * 100)
    folder.mkdir()
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("engine.sock")
        with pytest.raises(InvalidInput, match=r"10[37] bytes"):
            load("http://localhost", model="m", unix_socket=folder / "engine.sock")


def run_with_files(files: int, *arguments: str, record: Path) -> tuple[int, str, str]:
    """Run the command with a maximum number of open files; return its exit code, stdout and stderr."""
    argv = [sys.executable, "-m", "vlmhyperbench.cli.main", "load", *arguments, "--record", str(record), "--quiet"]
    done = subprocess.run(
        ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *argv],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_if_a_schedule_may_need_more_files_than_allowed_the_error_names_the_flag_that_helps(tmp_path: Path) -> None:
    # 300 requests may need 300 connections; with 64 other files, these are more than 256 files.
    flags = ["--model", "m", "--scenario", "server", "--rate", "600", "--requests", "300"]
    with SimulatedProcess(Simulation(tokens=1)) as engine:
        code, _, error = run_with_files(256, engine.url, *flags, record=tmp_path / "refused")
        assert code != 0
        assert all(part in error for part in ("364", "256", "--max-in-flight"))
        _, out, error = run_with_files(256, engine.url, *flags, "--max-in-flight", "100", record=tmp_path / "sent")
    assert "300 of 300" in out, error
    assert read_record(tmp_path / "sent").filter(phase=1).height == 300


def test_beyond_the_maximum_of_connections_requests_wait_and_the_wait_is_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Twelve requests within 12 ms, each of 50 ms, over two connections: the last ones wait for five before them.
    with SimulatedProcess(Simulation(ttft_ms=50.0, tokens=1)) as engine:
        data = measured(
            capsys, engine.url, scenario="server", rate=1000.0, arrivals="constant", requests=12, max_in_flight=2
        )
    assert (data["requests"]["ok"], data["client"]["opened_beyond_pool"]) == (12, 0)
    assert data["metrics"]["queue_ms"]["max"] >= 5 * 50.0 - 12.0
    assert data["metrics"]["latency_ms"]["max"] >= 6 * 50.0 - 12.0
    assert not {gate["name"]: gate["ok"] for gate in data["gates"]}["send_lag_p99_ms"]


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        ({}, "--max-in-flight"),
        ({"scenario": "interactive", "rate": 5.0, "conversations": 2}, "--max-in-flight"),
        ({"scenario": "server", "rate": 5.0, "concurrency": 5}, "--concurrency"),
    ],
)
def test_a_maximum_of_connections_without_effect_is_refused(arguments: Mapping[str, Any], flag: str) -> None:
    with pytest.raises(InvalidInput, match=flag):
        load("http://127.0.0.1:9", model="m", max_in_flight=4, **arguments)
