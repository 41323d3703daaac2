"""How `vlmhyperbench load` reaches a server: over a Unix socket, and with no more connections than there may be."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.shared.cli.measuring import load, measured
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


def test_of_two_servers_only_the_first_is_on_the_socket(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "engine.sock"
    with (
        SimulatedProcess(Simulation(tokens=1), unix_socket=str(path)),
        SimulatedProcess(Simulation(tokens=2)) as second,
    ):
        data = measured(capsys, "http://localhost", unix_socket=path, against=second.url, repeats=2, requests=4)
    for pair in data["pairs"]:
        assert (pair["first"]["client"]["transport"], pair["first"]["tokens"]["completion"]) == ("unix", 4)
        assert (pair["second"]["client"]["transport"], pair["second"]["tokens"]["completion"]) == ("tcp", 8)


def test_what_is_no_socket_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"--unix-socket .*nothing\.sock cannot be found: No such file"):
        load("http://localhost", model="m", unix_socket=tmp_path / "nothing.sock")
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="file is no socket"):
        load("http://localhost", model="m", unix_socket=tmp_path / "file")


def test_a_socket_whose_path_no_address_holds_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ("d" * 100)
    folder.mkdir()
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("engine.sock")
        with pytest.raises(InvalidInput, match=r"is longer than the 10[37] bytes"):
            load("http://localhost", model="m", unix_socket=folder / "engine.sock")


def run_with_files(files: int, *arguments: str, record: Path) -> tuple[int, str, str]:
    """Run the command where at most so many files may be open; return its exit code, stdout and stderr."""
    argv = [sys.executable, "-m", "vlmhyperbench.cli.main", "load", *arguments, "--record", str(record), "--quiet"]
    done = subprocess.run(
        ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *argv],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_schedule_of_more_requests_than_files_names_the_flag_that_lets_it_go(tmp_path: Path) -> None:
    # 300 requests may come to 300 connections, which with 64 files to spare are more than 256.
    asked = ["--model", "m", "--scenario", "server", "--rate", "600", "--requests", "300"]
    with SimulatedProcess(Simulation(tokens=1)) as engine:
        code, _, said = run_with_files(256, engine.url, *asked, record=tmp_path / "refused")
        assert code != 0
        assert all(shown in said for shown in ("364", "256", "--max-in-flight"))
        _, out, said = run_with_files(256, engine.url, *asked, "--max-in-flight", "100", record=tmp_path / "sent")
    assert "300 of 300" in out, said
    assert read_record(tmp_path / "sent").filter(phase=1).height == 300


def test_beyond_the_most_connections_a_request_waits_and_its_wait_counts(capsys: pytest.CaptureFixture[str]) -> None:
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
    ("arguments", "message"),
    [
        ({}, "--max-in-flight"),
        ({"scenario": "interactive", "rate": 5.0, "conversations": 2}, "--max-in-flight"),
        ({"scenario": "server", "rate": 5.0, "concurrency": 5}, "--concurrency"),
    ],
)
def test_a_bound_on_connections_that_bounds_none_is_refused(arguments: Mapping[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        load("http://127.0.0.1:9", model="m", max_in_flight=4, **arguments)
