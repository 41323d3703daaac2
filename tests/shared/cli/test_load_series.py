"""`vlmhyperbench load` several times: repeats, sweeps, searches and durations against a server of known capacity."""

from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.shared.cli.measuring import load
from tests.shared.load.slots import SlotServer
from vlmhyperbench.cli.load.parsing import parse_precision, parse_sweep
from vlmhyperbench.cli.output_flags import OutputFlags
from vlmhyperbench.load.record import read_record
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_simulated.process import SimulatedProcess
from vlmhyperbench_simulated.simulation import Simulation

TRACE = "trace.jsonl"
POINTS = 20
JSON, TEXT = OutputFlags(json=True, quiet=True), OutputFlags(quiet=True)


def measured(capsys: pytest.CaptureFixture[str], url: str, **arguments: object) -> tuple[int, dict[str, Any]]:
    """Run `load --json`; return its exit code and its envelope."""
    code = load(url, model="m", output=JSON, **arguments)
    envelope: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, envelope


def test_in_a_sweep_the_rate_does_not_exceed_the_capacity(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    # Two slots of 50 ms serve 40 requests per second, at any number of streams.
    with SlotServer(Simulation(ttft_ms=50.0, tokens=1), slots=2) as server:
        _, envelope = measured(
            capsys, server.url, sweep="concurrency=1,2,6", requests=48, record=tmp_path / "record", warmup=1
        )
    data = envelope["data"]
    assert (envelope["kind"], data["axis"]) == ("load_sweep", "concurrency")
    assert data["idle_ttft_ms"] >= 50.0
    one, two, six = (point["result"] for point in data["points"])
    assert one["metrics"]["requests_per_s"] <= 20.0
    assert max(two["metrics"]["requests_per_s"], six["metrics"]["requests_per_s"]) <= 40.0
    # Six streams share two slots: each waits for two others before its own turn.
    assert six["metrics"]["ttft_user_ms"]["p50"] >= 3 * 50.0 - 5.0
    assert [len(point["result"]["phases"]) for point in data["points"]] == [2, 2, 2]
    assert all(point["settled_s"] is not None for point in data["points"])
    assert read_record(tmp_path / "record" / "concurrency-6").filter(phase=1).height == 48


def test_streams_that_share_a_slot_slow_each_other_down(capsys: pytest.CaptureFixture[str]) -> None:
    # One slot of 80 ms: a single request takes 80 ms, and each of four waits until three others are served.
    with SlotServer(Simulation(ttft_ms=80.0, tokens=1), slots=1) as server:
        _, envelope = measured(capsys, server.url, scenario="multi_stream", concurrency=4, requests=24, baseline=12)
        load(server.url, model="m", scenario="multi_stream", concurrency=2, requests=6, baseline=3, output=TEXT)
    data = envelope["data"]
    found = data["interference"]
    assert [phase["no"] for phase in data["phases"]] == [0, 1, 2]
    assert (found["baseline_requests"], data["requests"]["scheduled"]) == (12, 24)
    assert found["ttft"]["value"] > 1.3
    assert found["ttft"]["low"] <= found["ttft"]["value"] <= found["ttft"]["high"]
    assert found["tpot"]["value"] is None
    assert re.search(r"\b3 requests.*ttft x \d", capsys.readouterr().out)


def test_two_servers_are_compared_in_pairs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    # Answers of 40 ms and of 100 ms: a ratio of 2.5 on an idle machine.
    with (
        SimulatedProcess(Simulation(ttft_ms=40.0, tokens=1)) as fast,
        SimulatedProcess(Simulation(ttft_ms=100.0, tokens=1)) as slow,
    ):
        _, envelope = measured(
            capsys, fast.url, against=slow.url, repeats=4, requests=6, scenario="single_stream", prompt_tokens=3,
            record=tmp_path / "record", warmup=0,
        )  # fmt: skip
        load(fast.url, model="m", against=slow.url, repeats=2, requests=3, output=TEXT)
    data = envelope["data"]
    assert (envelope["kind"], len(data["pairs"])) == ("load_against", 4)
    ratio = data["ratios"]["latency_p50"]
    assert ratio["pairs"] == 4
    logs = [
        math.log(pair["second"]["metrics"]["latency_ms"]["p50"] / pair["first"]["metrics"]["latency_ms"]["p50"])
        for pair in data["pairs"]
    ]
    assert 1.0 < ratio["ratio"] == pytest.approx(math.exp(sum(logs) / 4))
    assert ratio["low"] <= ratio["ratio"] <= ratio["high"]
    # Each server is first equally often, and both measurements of a pair send the same requests.
    assert sorted(pair["began_with"] for pair in data["pairs"]) == ["first", "first", "second", "second"]
    asked = [
        read_record(tmp_path / "record" / f"{name}")["request_sha256"].to_list()
        for name in ("001-first", "001-second", "002-first")
    ]
    assert asked[0] == asked[1] != asked[2]
    out = capsys.readouterr().out
    assert out.index(slow.url) < out.index(fast.url)


def test_a_search_never_certifies_more_than_the_capacity(capsys: pytest.CaptureFixture[str]) -> None:
    # Two slots of 40 ms hold 50 requests a second. Beyond, each request waits longer than the one before: at 60 a
    # second number k waits k / 50 - k / 60 s, so of 150 all from number 60 on wait longer than 200 ms.
    with SlotServer(Simulation(ttft_ms=40.0, tokens=1), slots=2) as server:
        code, envelope = measured(
            capsys, server.url, search_rate=True, slo="ttft_p90<240", rate=30.0, requests=150, probes=3, concurrency=64
        )
    data = envelope["data"]
    found = data["found"]
    assert envelope["kind"] == "load_search"
    assert (data["requests"], data["certainty"]) == (150, pytest.approx(1 - 0.05 / 3))
    assert found["probes"]
    assert all(probe["rate_per_s"] < 58.0 for probe in found["probes"] if probe["passed"])
    if data["ended_by"] is None:
        assert len(found["probes"]) == 3
        assert (code, found["passed_per_s"] is None) in ((0, False), (5, True))
        assert found["failed_per_s"] <= 60.0
    else:
        # A machine that is busy with other things makes a client that is late, and the search says so.
        assert (code, data["valid"]) == (4, False)


def test_a_search_in_which_no_rate_passes_exits_with_5(capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedProcess(Simulation(ttft_ms=30.0, tokens=1)) as engine:
        code = load(
            engine.url, model="m", search_rate=True, slo="ttft_p90<1", rate=200.0, requests=60, probes=1, output=TEXT
        )
    out = capsys.readouterr().out
    assert code == 5
    assert all(part in out for part in ("NOT REACHED", "ttft_p90<1", "60 of 60"))


def test_a_limit_on_a_time_that_no_request_has_ends_a_search(capsys: pytest.CaptureFixture[str]) -> None:
    # Answers of one token have no time per token after the first.
    with SimulatedProcess(Simulation(tokens=1)) as engine:
        code = load(engine.url, model="m", search_rate=True, slo="tpot_p50<5", rate=100.0, output=TEXT)
    out = capsys.readouterr().out
    assert code == 4
    assert "INVALID" in out
    assert "tpot_p50" in out


def test_an_interrupted_sweep_keeps_its_points() -> None:
    # So many points that it is not done when the signal comes, however late.
    with SimulatedProcess(Simulation(ttft_ms=5.0, tokens=1)) as engine:
        argv = [sys.executable, "-m", "vlmhyperbench.cli.main", "load", engine.url, "--model", "m", "--json"]
        argv += ["--requests", "20", "--sweep", f"concurrency={','.join(map(str, range(1, POINTS + 1)))}"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            assert running.stderr is not None
            assert any("point 2" in line for line in running.stderr)
            running.send_signal(signal.SIGINT)
            out, _ = running.communicate(timeout=120)
    data = json.loads(out)["data"]
    assert running.returncode == 130
    assert (data["valid"], data["points"][0]["result"]["requests"]["ok"]) == (False, 20)
    assert len(data["points"]) < POINTS


def test_repeats_have_other_prompts_and_a_mean_with_an_interval(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with SimulatedProcess(Simulation(ttft_ms=5.0, gap_ms=2.0, tokens=3)) as engine:
        _, envelope = measured(
            capsys, engine.url, repeats=3, requests=10, prompt_tokens=4, warmup=0, record=tmp_path / "record"
        )
        load(engine.url, model="m", repeats=2, requests=5, output=TEXT)
    data = envelope["data"]
    assert (envelope["kind"], len(data["runs"]), data["stopped"]) == ("load_repeats", 3, None)
    mean = data["metrics"]["ttft_p50"]
    assert (mean["n"], mean["confidence"]) == (3, 0.95)
    assert mean["low"] <= mean["mean"] <= mean["high"]
    # Other seeds ask other words.
    asked = [set(read_record(tmp_path / "record" / name)["request_sha256"]) for name in ("001", "002", "003")]
    assert not asked[0] & asked[1]
    assert "2 repeats" in capsys.readouterr().out


def test_repeats_end_when_they_are_precise(capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedProcess(Simulation(ttft_ms=50.0, tokens=1)) as engine:
        _, envelope = measured(
            capsys, engine.url, until_precision="90%", precision_of="ttft_p50", requests=5, concurrency=1, warmup=0
        )
        load(
            engine.url,
            model="m",
            until_precision="0.000001",
            repeats=3,
            requests=3,
            scenario="single_stream",
            output=TEXT,
        )
    stopped = envelope["data"]["stopped"]
    looks = len(envelope["data"]["runs"]) - 2
    assert looks >= 1
    assert (stopped["is_reached"], stopped["metric"]) == (True, "ttft_p50")
    assert stopped["mean"]["confidence"] == pytest.approx(1 - 0.05 / (looks * (looks + 1)))
    assert re.search(r"latency_p90 .*NOT reached", capsys.readouterr().out)


def test_a_closed_loop_lasts_about_its_duration(capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedProcess(Simulation(ttft_ms=20.0, tokens=1)) as engine:
        _, envelope = measured(capsys, engine.url, duration=2.0, concurrency=2, warmup=0)
    data = envelope["data"]
    # Two streams of 20 ms make at most 200 requests in 2 s, and a pilot is never faster than that.
    assert 1 <= data["requests"]["scheduled"] <= 200
    assert data["requests"]["ok"] == data["requests"]["scheduled"]


def test_a_pilot_sends_no_measured_request(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with SimulatedProcess(Simulation(ttft_ms=30.0, tokens=1, record=True)) as engine:
        measured(capsys, engine.url, duration=0.5, concurrency=1, prompt_tokens=6, warmup=0, record=tmp_path / "record")
        asked = [str(request["body_sha256"]) for request in engine.records()]
    counted = read_record(tmp_path / "record").height
    assert len(set(asked)) == len(asked) > counted


def test_a_signal_before_anything_is_measured_ends_with_its_code() -> None:
    # The first answer of the pilot takes a minute, and the signal comes within it.
    with SimulatedProcess(Simulation(ttft_ms=60_000.0, tokens=1)) as engine:
        argv = [sys.executable, "-m", "vlmhyperbench.cli.main", "load", engine.url, "--model", "m"]
        argv += ["--duration", "5"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            assert running.stderr is not None
            assert running.stderr.readline()  # the pilot has begun
            running.send_signal(signal.SIGTERM)
            out, _ = running.communicate(timeout=120)
    assert (running.returncode, out) == (143, "")


def test_sweeps_and_precisions_are_read() -> None:
    assert parse_sweep("rate=5, 10,2.5") == ("rate", (5.0, 10.0, 2.5))
    assert parse_sweep("concurrency=1") == ("concurrency", (1.0,))
    assert (parse_precision("2%"), parse_precision("0.5"), parse_precision(" 10 %")) == (0.02, 0.5, 0.1)


@pytest.mark.parametrize(
    ("arguments", "flags"),
    [
        ({"sweep": "rate"}, "--sweep 'rate'"),
        ({"sweep": "speed=1,2"}, "--sweep 'speed=1,2'"),
        ({"sweep": "rate=1,x"}, "--sweep 'rate=1,x'"),
        ({"sweep": "rate=1,1"}, "--sweep 'rate=1,1'"),
        ({"sweep": "concurrency=0"}, "--sweep concurrency=0"),
        ({"sweep": "concurrency=2", "scenario": "server", "rate": 5.0}, "--sweep concurrency=2 .*server"),
        ({"sweep": "rate=5", "scenario": "offline"}, "offline"),
        ({"sweep": "rate=5,1000000", "requests": 5}, "rate_per_s"),
        ({"sweep": "rate=5", "repeats": 3}, "--repeats.*--sweep"),
        ({"search_rate": True, "sweep": "rate=5"}, "--sweep.*--against"),
        ({"search_rate": True}, "--search-rate.*--slo"),
        ({"search_rate": True, "slo": "ttft_p99<5", "requests": 100}, "100 requests.*--requests"),
        ({"search_rate": True, "slo": "ttft_p99<5", "duration": 9.0}, "--duration"),
        ({"search_rate": True, "slo": "ttft_p99<5", "preset": "quick"}, "--duration"),
        ({"search_rate": True, "slo": "ttft_p99<5", "scenario": "offline"}, "offline"),
        ({"sweep": "rate=5,6", "trace": TRACE}, "--sweep rate.*--trace"),
        (
            {"search_rate": True, "slo": "ttft_p99<5", "arrivals": "ramp", "to_rate": 1.0, "rate": 2.0},
            "ramp",
        ),
        ({"sweep": "rate=5", "arrivals": "ramp", "to_rate": 1.0}, "ramp"),
        (
            {"preset": "official", "scenario": "multi_stream", "sweep": "concurrency=8,16"},
            "concurrency=16",
        ),
        ({"search_rate": True, "slo": "ttft_p99<5", "trace": TRACE}, "--duration"),
        ({"until_precision": "0"}, "--until-precision"),
        ({"until_precision": "100%"}, "--until-precision"),
        ({"until_precision": "soon"}, "--until-precision"),
        ({"until_precision": "2%", "precision_of": "speed"}, "--precision-of"),
        ({"against": "http://h", "until_precision": "2%"}, "--until-precision"),
        ({"against": "http://h", "sweep": "rate=5"}, "--sweep.*--against"),
        ({"against": "nowhere"}, "'nowhere'"),
        ({"precision_of": "ttft_p99"}, "--precision-of.*--until-precision"),
        ({"preset": "quick", "requests": 5}, "--preset quick"),
        ({"preset": "official", "scenario": "server", "rate": 5.0}, "ttft.*tpot"),
        ({"preset": "vlm"}, "--rate"),
        ({"baseline": 5}, "--baseline"),
    ],
)
def test_flags_that_do_not_fit_together_are_refused_before_anything_is_sent(
    arguments: dict[str, object], flags: str, tmp_path: Path
) -> None:
    if "trace" in arguments:
        arguments = {**arguments, "trace": tmp_path / TRACE}
        (tmp_path / TRACE).write_text('{"timestamp_s": 1}')
    with pytest.raises(InvalidInput, match=flags):
        load("http://127.0.0.1:9", model="m", **arguments)
