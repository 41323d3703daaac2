"""What `vlmhyperbench load` prints about its own cost, its estimates, and the speeds so far."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from typing import Any

import pytest

from tests.loadgen.driving import read_request, serving, whole
from tests.shared.cli.measuring import JSON, load, measured
from tests.support.terminals import stderr_of
from vlmhyperbench.cli.load.text import write_number
from vlmhyperbench.cli.output_flags import OutputFlags
from vlmhyperbench_simulated.process import SimulatedProcess
from vlmhyperbench_simulated.simulation import Simulation

TEXT = OutputFlags(quiet=True)
SPEEDS = re.compile(
    r"so far [\d.]+ requests/s, [\d.]+ tokens/s, p50/p99 ([\d.]+)/([\d.]+) ms ttft, [\d.]+/[\d.]+ ms latency"
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_the_cost_of_the_client_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    began_s = time.process_time()
    with SimulatedProcess(Simulation(tokens=4)) as engine:
        data = measured(capsys, engine.url, requests=30, repeats=2)
        used_s = time.process_time() - began_s
        load(engine.url, model="m", requests=4, output=TEXT)
    first, second = (run["client"] for run in data["runs"])
    for client in (first, second):
        assert 0 < client["measuring_cpu_s"] <= client["cpu_s"]
        # An interpreter needs some megabytes; the peak is that of the largest process; this process is larger.
        assert 1e6 < client["measuring_peak_rss_bytes"] < client["peak_rss_bytes"]
        assert client["driver_peak_rss_bytes"] > 1e7
        assert client["is_realtime"] in (True, False)
        assert (client["resent"], client["reopened"]) == (0, 0)
    # The second result states the CPU time since the first, which states all CPU time before.
    assert 0 < second["driver_cpu_s"] <= used_s
    out = capsys.readouterr().out
    assert re.search(r"^load generator: [\d.]+ s .*[\d.]+ s .* \d+ MB, .* over tcp$", out, re.MULTILINE)
    assert re.search(r"^  .*: [\d.]+ s .*\d+ MB$", out, re.MULTILINE)


@pytest.mark.anyio
async def test_requests_that_were_sent_twice_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    async def close_on_the_second(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await read_request(reader)
        writer.write(whole())
        await read_request(reader)

    asked: dict[str, Any] = {"requests": 3, "concurrency": 1, "warmup": 0}
    async with serving(close_on_the_second) as url:
        await asyncio.to_thread(load, url, model="m", output=JSON, **asked)
        await asyncio.to_thread(load, url, model="m", output=TEXT, **asked)
    envelope, _, text = capsys.readouterr().out.partition("\n")
    data = json.loads(envelope)["data"]
    assert (data["requests"]["ok"], data["client"]["resent"]) == (3, 2)
    assert re.search("^load generator: .*: 2$", text, re.MULTILINE)


@pytest.mark.anyio
async def test_answers_without_a_token_are_counted_and_excluded_from_the_rates(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def say_nothing_every_other_time(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int
    ) -> None:
        del connection
        for number in itertools.count():
            await read_request(reader)
            writer.write(whole("" if number % 2 else "yes"))

    asked: dict[str, Any] = {"requests": 8, "concurrency": 1, "warmup": 0}
    async with serving(say_nothing_every_other_time) as url:
        await asyncio.to_thread(load, url, model="m", output=JSON, **asked)
        for more in ({}, {"repeats": 2}, {"sweep": "concurrency=1"}):
            await asyncio.to_thread(load, url, model="m", output=TEXT, **asked, **more)
    envelope, _, text = capsys.readouterr().out.partition("\n")
    data = json.loads(envelope)["data"]
    assert (data["requests"]["ok"], data["requests"]["ok_without_token"]) == (8, 4)
    assert data["metrics"]["requests_per_s"] == pytest.approx(4 / data["duration_s"])
    assert "\n  4 of them" in text
    assert "ttft_p99: none" in text
    (point,) = [line.split("\t") for line in text.splitlines() if line.startswith("1\t")]
    assert (point[1], point[5]) == ("4/8", "none")


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, None), (0.0, "0.00"), (0.004, "0.00400"), (1.0041, "1.004"), (12.345, "12.35"), (-0.5, "-0.500")],
)
def test_small_numbers_keep_their_digits(value: float | None, text: str | None) -> None:
    assert write_number(value) == text


def test_answers_with_estimated_tokens_per_event_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedProcess(Simulation(tokens=8, tokens_per_event=4, gap_ms=30.0)) as engine:
        data = measured(capsys, engine.url, requests=6)
        series: tuple[dict[str, Any], ...] = ({}, {"repeats": 2}, {"sweep": "concurrency=1,2"})
        for more in series:
            load(engine.url, model="m", requests=6, output=TEXT, **more)
    assert data["tokens"]["events_estimated"] == 6
    assert data["metrics"]["tpot_ms"]["n"] == 6
    out = capsys.readouterr().out
    estimated = [line for line in out.splitlines() if line.startswith("ESTIMATED")]
    assert [("6 of 6" in line, "12 of 12" in line) for line in estimated] == [
        (True, False), (False, True), (False, True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "simulation",
    [
        Simulation(tokens=8, gap_ms=1.0),
        Simulation(tokens=8, tokens_per_event=4, gap_ms=1.0, running_usage=True),
        # An answer of one event has no gap to be estimated.
        Simulation(tokens=4, tokens_per_event=4),
    ],
    ids=["one each", "running usage", "one event"],
)
def test_counted_tokens_are_not_marked_as_estimates(simulation: Simulation, capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedProcess(simulation) as engine:
        data = measured(capsys, engine.url, requests=6)
        load(engine.url, model="m", requests=6, output=TEXT)
    assert data["tokens"]["events_estimated"] == 0
    assert "ESTIMATED" not in capsys.readouterr().out


def test_if_answers_have_reasoning_the_first_content_has_its_own_time(capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedProcess(Simulation(ttft_ms=20.0, gap_ms=10.0, tokens=8, reasoning_tokens=4)) as engine:
        data = measured(capsys, engine.url, requests=6, concurrency=2)
        # After three tokens, an answer has no content yet.
        cut = measured(capsys, engine.url, requests=6, concurrency=2, output_tokens=3)
        load(engine.url, model="m", requests=2, output=TEXT)
    reasoning, content = (data["metrics"][f"first_{kind}_ms"] for kind in ("reasoning", "content"))
    assert reasoning == data["metrics"]["ttft_user_ms"]
    assert (content["n"], content["p50"] >= 20.0 + 4 * 10.0) == (6, True)
    assert (cut["metrics"]["first_reasoning_ms"]["n"], cut["metrics"]["first_content_ms"]["n"]) == (6, 0)
    out = capsys.readouterr().out
    assert "first_reasoning_ms" in out
    assert "first_content_ms" in out


def test_without_reasoning_there_is_only_one_time_to_the_first_token(capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedProcess(Simulation(tokens=2)) as engine:
        data = measured(capsys, engine.url, requests=4)
    assert not {"first_reasoning_ms", "first_content_ms"} & data["metrics"].keys()


def progress_of(url: str, *more: str, on_terminal: bool = False) -> str:
    """Load a server and return what the command writes to stderr."""
    load = ("load", url, "--model", "m", "--requests", "40", *more)
    return stderr_of(*load, on_terminal=on_terminal, statuses=(0, 4))


def test_speeds_so_far_are_printed_on_a_terminal_or_with_live() -> None:
    with SimulatedProcess(Simulation(ttft_ms=20.0, tokens=3)) as engine:
        on_terminal, live = progress_of(engine.url, on_terminal=True), progress_of(engine.url, "--live")
        piped, quiet = progress_of(engine.url), progress_of(engine.url, "--live", "--quiet")
    for stderr in (on_terminal, live):
        speeds = SPEEDS.search(stderr)
        assert speeds is not None, stderr
        p50, p99 = map(float, speeds.groups())
        assert 20.0 <= p50 <= p99
    assert "40 done" in piped
    assert "so far" not in piped
    assert quiet == ""
