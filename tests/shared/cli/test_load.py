"""`vlmhyperbench load`: a result without a stack, exit codes, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

import pytest

from vlmhyperbench.cli.load import complete_url, draw_prompts, load, parse_slo
from vlmhyperbench.cli.shown import Shown
from vlmhyperbench.load.results import read_record
from vlmhyperbench_sdk.errors import InvalidInput, NotFound, Unavailable
from vlmhyperbench_simulated.server import start_server
from vlmhyperbench_simulated.simulation import Simulation

pytestmark = pytest.mark.anyio

JSON = Shown(json=True, quiet=True)


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
                shown=JSON,
            )
    envelope = json.loads(capsys.readouterr().out)
    data = envelope["data"]
    assert (envelope["schema"], envelope["kind"]) == ("vlmhb/v1", "load")
    assert data["requests"] == {"scheduled": 20, "sent": 20, "ok": 20, "error": 0, "timeout": 0}
    assert data["tokens"] == {"prompt": 20 * (64 + 9), "completion": 160, "source": "usage"}
    assert data["metrics"]["latency_ms"]["n"] == 20
    assert data["metrics"]["goodput_per_s"] == data["metrics"]["requests_per_s"]
    assert data["phases"] == [{"no": 0, "requests": 2, "ok": 2}, {"no": 1, "requests": 20, "ok": 20}]
    assert {gate["name"] for gate in data["gates"]} >= {"unaccounted", "error_share", "send_lag_p99_ms"}
    assert data["valid"] is all(gate["ok"] for gate in data["gates"])
    assert len(read_record(tmp_path / "record")) == 22


async def test_errors_over_the_limit_end_with_4(capsys: pytest.CaptureFixture[str]) -> None:
    async with await start_server(Simulation(fail_every=2)) as server:
        code = await asyncio.to_thread(
            load, f"{server.url}/v1", model="m", scenario="single_stream", requests=4, warmup=0, shown=Shown(quiet=True)
        )
    out = capsys.readouterr().out
    assert code == 4
    assert "2 of 4 requests succeeded" in out
    assert "2 x http_503" in out
    assert "INVALID: error_share is 0.5" in out


def test_a_target_that_nobody_serves_is_a_matter_of_setup() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(Unavailable, match="connect_failed: Connection refused"):
            load(f"http://127.0.0.1:{taken.getsockname()[1]}", model="m", shown=JSON)


def test_a_record_is_not_mixed_with_another(tmp_path: Path) -> None:
    (tmp_path / "1-0.parquet").touch()
    with pytest.raises(InvalidInput, match="holds the record of another run"):
        load("http://h", model="m", record=tmp_path)


def test_a_missing_image_or_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"nothing\.png"):
        load("http://h", model="m", image=[tmp_path / "nothing.png"])
    with pytest.raises(InvalidInput, match="NO_SUCH_KEY is not set"):
        load("http://h", model="m", api_key_env="NO_SUCH_KEY")


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
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="is no URL"):
        complete_url(url)


def test_limits_are_read() -> None:
    assert parse_slo("ttft_p99<500ms, tpot < 50,") == {"ttft_p99": 500.0, "tpot": 50.0}
    assert parse_slo("") == {}


@pytest.mark.parametrize("text", ["ttft", "ttft<soon", "ttft<-1", "ttft<nan", "speed<5"])
def test_a_strange_limit_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_slo(text)


def test_drawn_prompts_are_unlike_each_other_and_like_those_of_the_same_seed() -> None:
    prompts = draw_prompts(50, words=8, seed=3)
    assert {len(prompt.split()) for prompt in prompts} == {8}
    assert len(set(prompts)) == 50
    assert prompts == draw_prompts(50, words=8, seed=3)
    assert prompts != draw_prompts(50, words=8, seed=4)


async def test_every_request_asks_something_else(capsys: pytest.CaptureFixture[str]) -> None:
    async with await start_server(Simulation(tokens=1, record=True)) as server:
        await asyncio.to_thread(load, server.url, model="m", requests=6, warmup=2, prompt_tokens=8, shown=JSON)
        assert len({record.body_sha256 for record in server.records}) == 8
    assert json.loads(capsys.readouterr().out)["data"]["tokens"]["prompt"] == 6 * 8
