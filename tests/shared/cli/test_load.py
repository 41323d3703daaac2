"""`vlmhyperbench load`: results without a stack, exit codes, and refused flags."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.shared.cli.measuring import load
from tests.support.processes import PATIENCE_S
from tests.support.wording import Wording
from vlmhyperbench.cli.load.parsing import complete_url, parse_slo
from vlmhyperbench.cli.output_flags import OutputFlags
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.load.neighbours import among_neighbours
from vlmhyperbench.load.record import read_record
from vlmhyperbench_sdk.errors import InvalidInput, NotFound, Unavailable
from vlmhyperbench_simulated.process import SimulatedProcess
from vlmhyperbench_simulated.server import start_server
from vlmhyperbench_simulated.simulation import Simulation

pytestmark = pytest.mark.anyio

JSON = OutputFlags(json=True, quiet=True)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_result_is_one_envelope(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = tmp_path / "page.png"
    image.write_bytes(b"\x89PNG")
    async with await start_server(Simulation(tokens=8), api_key="sk-1") as server:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("THE_KEY", "sk-1")
            await asyncio.to_thread(
                load,
                server.url,
                model="simulated",
                requests=20,
                concurrency=4,
                image=[image],
                slo="latency<60000ms",
                api_key_env="THE_KEY",
                record=tmp_path / "record",
                output=JSON,
            )
    envelope = json.loads(capsys.readouterr().out)
    data = envelope["data"]
    assert (envelope["schema"], envelope["kind"]) == ("vlmhb/v1", "load")
    assert data["requests"] == {
        "scheduled": 20,
        "sent": 20,
        "ok": 20,
        "error": 0,
        "timeout": 0,
        "skipped": 0,
        "ok_without_token": 0,
    }
    assert data["tokens"] == {
        "prompt": 20 * (64 + 9), "completion": 160, "source": "usage", "events_estimated": 0,
    }  # fmt: skip
    assert data["metrics"]["latency_ms"]["n"] == 20
    assert data["metrics"]["goodput_per_s"] == data["metrics"]["requests_per_s"]
    assert data["phases"] == [{"no": 0, "requests": 2, "ok": 2}, {"no": 1, "requests": 20, "ok": 20}]
    assert {gate["name"] for gate in data["gates"]} >= {"unaccounted", "error_share", "send_lag_mean_ms"}
    assert data["valid"] is all(gate["ok"] for gate in data["gates"])
    assert data["outcome"] == "complete"
    assert data["arrivals"] is None
    assert data["device"]["energy_j"] is None
    assert "bare URL" in data["device"]["reason"]
    assert data["client"]["transport"] == "tcp"
    assert data["client"]["driver_cpu_s"] > 0
    assert read_record(tmp_path / "record").height == 22


async def test_errors_over_the_limit_end_with_4(capsys: pytest.CaptureFixture[str]) -> None:
    async with await start_server(Simulation(fail_every=2)) as server:
        code = await asyncio.to_thread(
            load,
            f"{server.url}/v1",
            model="m",
            scenario="single_stream",
            requests=4,
            warmup=0,
            output=OutputFlags(quiet=True),
        )
    out = capsys.readouterr().out
    assert code == 4
    assert all(part in out for part in ("2 of 4", "HTTP 503", "INVALID", "error_share"))


async def test_a_load_is_invalid_while_another_measurement_runs(capsys: pytest.CaptureFixture[str]) -> None:
    async with await start_server(Simulation(tokens=2)) as server:
        with among_neighbours("another", Ground(machine="")):
            code = await asyncio.to_thread(load, server.url, model="simulated", requests=4, output=JSON)
    data = json.loads(capsys.readouterr().out)["data"]
    (gate,) = (gate for gate in data["gates"] if gate["name"] == "disturbers")
    assert (code, data["valid"], gate["ok"], gate["value"]) == (4, False, False, 1)


def test_a_target_that_does_not_listen_is_an_error_of_setup() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(Unavailable, match="Connection refused") as failed:
            load(f"http://127.0.0.1:{taken.getsockname()[1]}", model="m", output=JSON)
    assert failed.value.code == "connect_failed"


def test_a_record_is_not_written_into_the_folder_of_another(tmp_path: Path, wording: Wording) -> None:
    (tmp_path / "1-0.parquet").touch()
    with pytest.raises(InvalidInput, match="--record") as refused:
        load("http://h", model="m", record=tmp_path)
    wording(refused.value)


def test_a_missing_image_or_key_is_named(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(NotFound, match=r"nothing\.png") as missing:
        load("http://h", model="m", image=[tmp_path / "nothing.png"])
    wording(missing.value)
    with pytest.raises(InvalidInput, match="NO_SUCH_KEY") as refused:
        load("http://h", model="m", api_key_env="NO_SUCH_KEY")
    wording(refused.value)


@pytest.mark.parametrize(
    ("given", "whole"),
    [
        ("http://h:1", "http://h:1/v1/chat/completions"),
        ("http://h:1/", "http://h:1/v1/chat/completions"),
        ("https://h/api/v1/", "https://h/api/v1/chat/completions"),
        ("https://h/v1/chat/completions?x=1", "https://h/v1/chat/completions?x=1"),
    ],
)
def test_a_base_url_is_completed(given: str, whole: str) -> None:
    assert complete_url(given) == whole


@pytest.mark.parametrize("url", ["h:1", "ftp://h", "http://", "http://[::1"])
def test_text_that_is_not_a_url_is_refused(url: str, wording: Wording) -> None:
    with pytest.raises(InvalidInput, match=re.escape(repr(url))) as refused:
        complete_url(url)
    wording(refused.value)


def test_a_url_with_credentials_is_refused_and_not_repeated(wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        complete_url("http://user:secret@h:1/v1")
    wording(refused.value)


def test_limits_are_read() -> None:
    assert parse_slo("ttft_p99<500ms, tpot < 50,") == {"ttft_p99": 500.0, "tpot": 50.0}
    assert parse_slo("") == {}


@pytest.mark.parametrize("text", ["ttft", "ttft<soon", "ttft<-1", "ttft<nan", "speed<5", "ttft_p100<5", "ttft_p0<5"])
def test_a_malformed_limit_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_slo(text)


async def test_every_request_has_other_words(capsys: pytest.CaptureFixture[str]) -> None:
    async with await start_server(Simulation(tokens=1, record=True)) as server:
        await asyncio.to_thread(load, server.url, model="m", requests=6, warmup=2, prompt_tokens=8, output=JSON)
        first = [record.body_sha256 for record in server.records]
        assert len(set(first)) == 8
        server.records.clear()
        await asyncio.to_thread(
            load, server.url, model="m", requests=6, warmup=2, prompt_tokens=8, output=OutputFlags(quiet=True)
        )
        assert sorted(record.body_sha256 for record in server.records) == sorted(first)
    out = capsys.readouterr().out.splitlines()[0]
    assert json.loads(out)["data"]["tokens"]["prompt"] == 6 * 8


async def _run(server_url: str, capsys: pytest.CaptureFixture[str], **arguments: object) -> dict[str, Any]:
    """Run `load --json` in a thread and return its data."""
    await asyncio.to_thread(load, server_url, model="m", output=JSON, **arguments)
    data: dict[str, Any] = json.loads(capsys.readouterr().out)["data"]
    return data


async def test_server_sends_at_a_rate_and_states_the_achieved_rate(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async with await start_server(Simulation(tokens=1)) as server:
        data = await _run(
            server.url, capsys, scenario="server", rate=200.0, requests=60, seed=4, warmup=0, record=tmp_path / "record"
        )
    rows = read_record(tmp_path / "record")
    assert data["requests"] == {
        "scheduled": 60,
        "sent": 60,
        "ok": 60,
        "error": 0,
        "timeout": 0,
        "skipped": 0,
        "ok_without_token": 0,
    }
    assert data["arrivals"]["process"] == "poisson"
    assert data["arrivals"]["offered"]["rate_per_s"] == pytest.approx(200.0, rel=0.5)
    assert {"rate_error_share", "dispersion_error", "sends_like_process_p"} <= {gate["name"] for gate in data["gates"]}
    assert (rows["sent_ns"] >= rows["scheduled_ns"]).all()
    assert (rows["scheduled_ns"].max() - rows["scheduled_ns"].min()) / 1e9 == pytest.approx(
        59 / data["arrivals"]["offered"]["rate_per_s"], rel=0.05
    )


async def test_the_same_seed_sends_the_same_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    async with await start_server(Simulation(tokens=1)) as server:
        flags: dict[str, object] = {"scenario": "server", "rate": 500.0, "duration": 0.1, "prompt_tokens": 4}
        first, same, other = [await _run(server.url, capsys, seed=seed, **flags) for seed in (1, 1, 2)]
    assert first["schedule_sha256"] == same["schedule_sha256"] != other["schedule_sha256"]
    assert first["requests"]["scheduled"] == same["requests"]["scheduled"] > 20


async def test_a_trace_is_replayed_with_its_lengths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        {"timestamp_s": 7.0, "prompt_tokens": 3, "output_tokens": 2},
        {"timestamp_s": 7.1, "prompt_tokens": 5},
        {"timestamp_s": 7.2},
    ]
    (tmp_path / "trace.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    async with await start_server(Simulation(tokens=9)) as server:
        data = await _run(
            server.url, capsys, scenario="server", trace=tmp_path / "trace.jsonl", prompt="four words for it",
            output_tokens=4, warmup=0, record=tmp_path / "record",
        )  # fmt: skip
    rows = read_record(tmp_path / "record")
    assert data["arrivals"]["process"] == "trace"
    assert (rows["prompt_tokens"].to_list(), rows["completion_tokens"].to_list()) == ([3, 5, 4], [2, 4, 4])
    assert (rows["scheduled_ns"] - rows["scheduled_ns"][0]).to_list() == [0, 100_000_000, 200_000_000]


async def test_multi_stream_gives_every_stream_its_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with await start_server(Simulation(tokens=1)) as server:
        await _run(
            server.url, capsys, scenario="multi_stream", concurrency=3, requests=8, warmup=0, record=tmp_path / "record"
        )
    assert read_record(tmp_path / "record").filter(phase=1)["stream"].to_list() == [0, 1, 2, 0, 1, 2, 0, 1]


async def test_synthetic_images_are_new_in_every_request_or_sent_again(capsys: pytest.CaptureFixture[str]) -> None:
    async with await start_server(Simulation(tokens=1, record=True)) as server:
        new = await _run(server.url, capsys, images=2, image_size="32x16", requests=6, warmup=0)
        assert new["tokens"]["prompt"] == 6 * (2 * 64 + 9)
        assert len({record.body_sha256 for record in server.records}) == 6
        server.records.clear()
        await _run(server.url, capsys, images=1, image_size="32x16", image_reuse=1.0, requests=6, warmup=0)
        assert len({record.body_sha256 for record in server.records}) == 1


def _measure(capsys: pytest.CaptureFixture[str], url: str, **arguments: object) -> dict[str, Any]:
    """Run `load --json` and return its data."""
    load(url, model="m", output=JSON, **arguments)
    data: dict[str, Any] = json.loads(capsys.readouterr().out)["data"]
    return data


def test_a_result_states_the_certainty_of_its_percentiles_and_limits(capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedProcess(Simulation(ttft_ms=20.0, gap_ms=5.0, tokens=4)) as engine:
        data = _measure(
            capsys, engine.url, scenario="multi_stream", concurrency=4, requests=80, slo="ttft_p90<5000,latency_p90<30"
        )
    found = data["statistics"]
    p90 = found["percentiles"]["ttft_user_ms"][1]
    # 80 requests are at least 64 and fewer than 81, so only the maximum is a certain bound of p90.
    assert (p90["percent"], p90["n"], p90["failed"]) == (90.0, 80, 0)
    assert 20.0 <= p90["low"] <= p90["adjusted"] <= p90["high"] <= p90["certified"]
    assert p90["certified"] == data["metrics"]["ttft_user_ms"]["max"]
    assert found["percentiles"]["ttft_user_ms"][2]["certified"] is None
    assert (found["goodput"]["met"], found["goodput"]["scheduled"], found["goodput"]["low"]) == (0, 80, 0.0)
    kept, missed = found["limits"]
    assert (kept["name"], kept["over"], kept["is_kept"], kept["is_certain"]) == ("ttft_p90", 0, True, True)
    assert (missed["name"], missed["over"]) == ("latency_p90", 80)
    assert not missed["is_kept"] | missed["is_certain"]
    assert [(group["name"], group["requests"]) for group in found["streams"]] == [(str(no), 20) for no in range(4)]
    assert 0.5 < found["fairness"]["output_tokens"] <= 1.0
    # 4 streams of 35 ms a request.
    assert found["steady"]["requests_per_s"]["per_s"] <= 4 / 0.035
    assert found["steady"]["start_s"] >= 0.035


def test_times_are_stated_per_size_of_images(capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedProcess(Simulation(tokens=1)) as engine:
        data = _measure(capsys, engine.url, images=1, image_size="32x16,1000x400", requests=20, warmup=2, seed=3)
        load(
            engine.url,
            model="m",
            images=1,
            image_size="32x16,1000x400",
            requests=20,
            seed=3,
            output=OutputFlags(quiet=True),
        )
    small, large = data["statistics"]["image_sizes"]
    assert (small["name"], large["name"]) == ("up to 0.1 MP", "up to 0.5 MP")
    assert small["requests"] + large["requests"] == 20
    assert small["requests"] > 3 < large["requests"]
    assert "up to 0.5 MP" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "flags"),
    [
        ({"scenario": "server"}, "--scenario server"),
        ({"scenario": "server", "rate": 0.0}, "rate_per_s"),
        ({"scenario": "server", "rate": 1e9}, "rate_per_s"),
        ({"scenario": "server", "rate": float("nan")}, "rate_per_s"),
        ({"scenario": "server", "rate": 1.0, "arrivals": "ramp"}, "--arrivals ramp.*--to-rate"),
        ({"scenario": "server", "rate": 1.0, "to_rate": 5.0}, "--to-rate.*--arrivals"),
        ({"scenario": "server", "rate": 1.0, "cv": 5.0}, "--cv.*--arrivals"),
        ({"scenario": "server", "rate": 1.0, "burst_size": 5}, "--burst-size.*--arrivals"),
        ({"scenario": "server", "rate": 1.0, "speed": 5.0}, "--speed.*--trace"),
        ({"image_reuse": 0.5}, "--image-reuse.*--images"),
        ({"image_reuse": 0.5, "preset": "vlm", "rate": 5.0}, "--image-reuse.*--images"),
        ({"image_size": "32x32", "preset": "vlm", "rate": 5.0}, "--image-size.*--images"),
        ({"scenario": "server", "rate": 1.0, "requests": 5, "duration": 2.0}, "--requests.*--duration"),
        ({"scenario": "server", "rate": 0.001, "duration": 0.1}, "no requests"),
        ({"scenario": "server", "rate": 1e5, "duration": 80_000.0}, "arrivals"),
        ({"rate": 5.0}, "offline"),
        ({"duration": 5.0, "requests": 5}, "--requests.*--duration"),
        ({"images": 1, "image_size": "big"}, "'big'"),
        ({"images": 1, "image_size": "0x5"}, "0x5"),
    ],
)
def test_flags_that_do_not_fit_together_are_refused_before_anything_is_sent(
    arguments: dict[str, object], flags: str
) -> None:
    with pytest.raises(InvalidInput, match=flags):
        load("http://127.0.0.1:9", model="m", **arguments)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_after_a_signal_the_finished_requests_are_kept_and_marked(number: signal.Signals, tmp_path: Path) -> None:
    with SimulatedProcess(Simulation(ttft_ms=5.0, tokens=1)) as engine:
        argv = [sys.executable, "-m", "vlmhyperbench.cli.main", "load", engine.url, "--model", "m", "--json"]
        argv += ["--requests", "20000", "--concurrency", "2", "--record", str(tmp_path / "record")]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            assert running.stderr is not None
            assert any(re.search("[1-9][0-9]* done", line) for line in running.stderr)
            running.send_signal(number)
            out, _ = running.communicate(timeout=PATIENCE_S)
    data = json.loads(out)["data"]
    assert running.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
    assert (data["outcome"], data["valid"]) == ("cancelled", False)
    assert 0 < data["requests"]["ok"] < 20_000
    assert read_record(tmp_path / "record").filter(phase=1).height == data["requests"]["ok"]
