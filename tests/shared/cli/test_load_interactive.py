"""`vlmhyperbench load --scenario interactive`: conversations with think time, measured turn by turn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.shared.cli.measuring import load
from vlmhyperbench.cli.output_flags import OutputFlags
from vlmhyperbench.load.record import read_record
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_simulated.process import SimulatedProcess
from vlmhyperbench_simulated.simulation import Simulation

MS, S = 1_000_000, 1_000_000_000


def measured(capsys: pytest.CaptureFixture[str], url: str, **arguments: object) -> dict[str, Any]:
    """Run `load --json` and return its data."""
    output = OutputFlags(json=True, quiet=True)
    load(url, model="m", scenario="interactive", output=output, **arguments)
    data: dict[str, Any] = json.loads(capsys.readouterr().out)["data"]
    return data


def test_each_turn_is_sent_one_think_time_after_the_answer_before_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with SimulatedProcess(Simulation(ttft_ms=20.0, gap_ms=5.0, tokens=3)) as engine:
        data = measured(
            capsys, engine.url, conversations=4, turns=3, think=0.1, concurrency=2, warmup=1, record=tmp_path / "record"
        )
    assert data["requests"] == {
        "scheduled": 12,
        "sent": 12,
        "ok": 12,
        "error": 0,
        "timeout": 0,
        "skipped": 0,
        "ok_without_token": 0,
    }
    groups = data["statistics"]["turns"]
    assert [(group["name"], group["requests"], group["ok"]) for group in groups] == [(turn, 4, 4) for turn in "012"]
    assert all(group["ttft_user_ms"]["p50"] >= 20.0 for group in groups)
    assert data["statistics"]["build_ms"]["n"] == 8
    rows = read_record(tmp_path / "record").filter(phase=1).sort("conversation", "turn")
    assert rows["conversation"].to_list() == [conversation for conversation in range(4) for _ in range(3)]
    for before, after in zip(rows.iter_rows(named=True), rows[1:].iter_rows(named=True), strict=False):
        if after["turn"]:
            assert after["scheduled_ns"] - before["stream_end_ns"] == 100 * MS
    # A later turn quotes more, so its prompt is longer.
    prompts = rows["prompt_tokens"].to_list()
    assert prompts[0] < prompts[1] < prompts[2]


def test_conversations_arrive_at_a_rate_whether_or_not_answers_arrive(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # An answer takes 0.4 s, and ten conversations arrive within about as long.
    with SimulatedProcess(Simulation(ttft_ms=400.0, tokens=1)) as engine:
        data = measured(
            capsys, engine.url, conversations=10, turns=2, think=0.0, rate=40.0, seed=5, record=tmp_path / "record"
        )
    arrivals = data["arrivals"]
    assert (arrivals["process"], data["requests"]["ok"]) == ("poisson", 20)
    first = read_record(tmp_path / "record").filter(phase=1, turn=0)["scheduled_ns"].sort()
    spread_s = (first[-1] - first[0]) / S
    assert spread_s == pytest.approx(9 / arrivals["offered"]["rate_per_s"], abs=0.3)
    # A closed loop of one stream would need 0.8 s for each conversation.
    assert spread_s < 1.0


def test_a_conversation_ends_with_the_turn_that_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedProcess(Simulation(tokens=1, fail_every=2)) as engine:
        data = measured(capsys, engine.url, conversations=3, turns=3, think=0.0, concurrency=1, warmup=0)
        load(
            engine.url,
            model="m",
            scenario="interactive",
            conversations=2,
            turns=2,
            think=0.0,
            output=OutputFlags(quiet=True),
        )
    # One conversation at a time: every second request fails, which is the second turn of each; no third turn is sent.
    assert data["requests"] == {
        "scheduled": 9,
        "sent": 6,
        "ok": 3,
        "error": 3,
        "timeout": 0,
        "skipped": 3,
        "ok_without_token": 0,
    }
    assert [group["ok"] for group in data["statistics"]["turns"]] == [3, 0, 0]
    assert data["statistics"]["percentiles"]["ttft_user_ms"][1]["adjusted"] is None
    out = capsys.readouterr().out
    assert "turn" in out
    assert "conversation_ended" in out


def test_images_belong_to_a_conversation(capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedProcess(Simulation(tokens=1)) as engine:
        data = measured(
            capsys, engine.url, conversations=2, turns=2, think=0.0, images=1, image_size="64x64", prompt_tokens=5
        )
    (group,) = data["statistics"]["image_sizes"]
    assert (group["name"], group["requests"]) == ("up to 0.1 MP", 2)


@pytest.mark.parametrize(
    ("arguments", "flags"),
    [
        ({"requests": 5}, "--requests"),
        ({}, "--conversations"),
        ({"duration": 5.0}, "--duration"),
        ({"preset": "quick"}, "--preset quick"),
        ({"rate": 5.0}, "--conversations.*--duration"),
        ({"rate": 5.0, "duration": 2.0, "conversations": 3}, "--conversations.*--duration"),
        ({"rate": 1e3, "duration": 60.0}, "4096"),
        ({"conversations": 3, "scenario": "offline"}, "--conversations.*--scenario"),
        ({"turns": 3, "scenario": "offline"}, "--turns.*--scenario"),
        ({"think": 3.0, "scenario": "server", "rate": 1.0}, "--think.*--scenario"),
        ({"conversations": 3, "prompt": "@@an answer of the model@@"}, "--prompt"),
        ({"rate": 5.0, "preset": "official"}, "ttft.*tpot"),
        ({"rate": 5.0, "conversations": 9, "search_rate": True, "slo": "ttft_p99<5"}, "--search-rate"),
    ],
)
def test_flags_that_do_not_fit_conversations_are_refused_before_anything_is_sent(
    arguments: dict[str, Any], flags: str
) -> None:
    with pytest.raises(InvalidInput, match=flags):
        load("http://127.0.0.1:9", model="m", **{"scenario": "interactive", **arguments})
