"""What presets ask of a load, and which results they let pass."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.shared.analysis.records import END, S, frame, row
from tests.shared.load.queueing import served, workload
from vlmhyperbench.analysis.load_design import Grouping
from vlmhyperbench.analysis.load_result import LoadResult, result_of
from vlmhyperbench.domain.arrivals import Arrivals
from vlmhyperbench.load.bodies import Asked
from vlmhyperbench.load.presets import Preset, checked_by, with_preset
from vlmhyperbench.load.workload import Workload, check_load, write_load
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.load import Endpoint

LIMITS = {"ttft_p99": 500.0, "tpot_p99": 50.0}


def closed(scenario: str, **changes: object) -> Workload:
    return workload(**{"scenario": scenario, "arrivals": None, "requests": None, **changes})


def test_quick_lasts_10_seconds_and_is_marked() -> None:
    load, slo, used = with_preset(closed("offline"), "quick", {})
    assert (load.duration_s, load.is_at_least, slo) == (10.0, False, {})
    assert used.note == "quick: not for publication"


@pytest.mark.parametrize(("scenario", "least"), [("single_stream", 64), ("multi_stream", 8 * 662), ("offline", 24_576)])
def test_official_has_mlperfs_floors(scenario: str, least: int) -> None:
    load, _, used = with_preset(closed(scenario), "official", {})
    assert (load.duration_s, load.is_at_least, load.min_requests) == (600.0, True, least)
    assert load.samples_per_query == (8 if scenario == "multi_stream" else 0)
    assert "MLPerf" in used.note


def test_official_server_needs_limits_on_p99_of_ttft_and_tpot() -> None:
    load, slo, _ = with_preset(workload(requests=None), "official", LIMITS)
    assert (load.min_requests, slo) == (662, LIMITS)
    with pytest.raises(InvalidInput, match="limit on the p99 of tpot"):
        with_preset(workload(requests=None), "official", {"ttft_p99": 500.0, "tpot_p90": 50.0})


def test_vlm_brings_images_and_a_limit_on_the_whole_answer() -> None:
    load, slo, used = with_preset(workload(requests=None), "vlm", {})
    assert slo == {"latency_p99": 12_000.0}
    assert load.asked.images is not None
    assert (load.asked.images.count, load.asked.images.reuse, len(load.asked.images.sizes)) == (1, 0.0, 3)
    assert load.asked.prompt_tokens > 0
    assert "stand-in" in used.note


def test_vlm_keeps_the_pictures_that_are_given() -> None:
    asked = Asked(model="m", prompt="", media=("data:image/png;base64,AA",), prompt_tokens=7)
    load, _, _ = with_preset(closed("single_stream", asked=asked), "vlm", {})
    assert (load.asked.images, load.asked.prompt_tokens) == (None, 7)


@pytest.mark.parametrize(
    ("preset", "load", "message"),
    [
        ("quick", closed("offline", requests=5), "--preset quick says itself"),
        ("quick", closed("offline", duration_s=9.0), "at least 10 s, not 9 s"),
        ("official", closed("offline", duration_s=60.0), "at least 600 s, not 60 s"),
        ("official", closed("multi_stream", streams=4), "queries of 8 samples, not 4"),
        (
            "official",
            workload(requests=None, arrivals=Arrivals(process="constant", rate_per_s=1.0)),
            "as a Poisson process, not constant",
        ),
    ],
)
def test_what_breaks_a_preset_is_refused(preset: Preset, load: Workload, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        with_preset(load, preset, LIMITS)


@pytest.mark.parametrize("preset", ["quick", "official", "vlm"])
@pytest.mark.parametrize(("scenario", "what"), [("interactive", "conversations"), ("server", "requests")])
def test_a_preset_that_lacks_a_rate_says_what_helps_and_that_does(preset: Preset, scenario: str, what: str) -> None:
    load, limits = closed(scenario, turns=2), LIMITS | {"latency_p99": 9000.0}
    with pytest.raises(InvalidInput, match=f"--preset {preset} of {scenario} needs a rate") as refused:
        with_preset(load, preset, limits)
    assert refused.value.cure == f"Give --rate: how many {what} arrive a second."
    helped = dataclasses.replace(load, arrivals=Arrivals(process="poisson", rate_per_s=1.0))
    check_load(with_preset(helped, preset, limits)[0])


def test_an_official_schedule_is_no_shorter_than_its_duration(tmp_path: Path) -> None:
    load, _, _ = with_preset(workload(requests=None), "official", LIMITS)
    check_load(load)
    written = write_load(tmp_path, load, Endpoint(url="http://h/v1"))
    assert written.open_loop is not None
    instants = written.open_loop.scheduled_ns
    assert instants[-2] - instants[0] < 600 * S <= instants[-1] - instants[0]


def test_an_official_schedule_is_longer_where_its_rate_is_low() -> None:
    slow = Arrivals(process="poisson", rate_per_s=0.5)
    load, _, _ = with_preset(workload(requests=None, arrivals=slow), "official", LIMITS)
    check_load(load)
    assert load.min_requests == 662


def test_a_closed_loop_is_planned_only_once_its_number_is_known(tmp_path: Path) -> None:
    load, _, _ = with_preset(closed("offline"), "quick", {})
    check_load(load)
    with pytest.raises(InvalidInput, match="not known yet"):
        write_load(tmp_path, load, Endpoint(url="http://h/v1"))


def official(load: Workload, result: LoadResult) -> dict[str, bool]:
    found = checked_by(result, load, with_preset(load, "official", LIMITS)[2])
    assert found.preset is not None
    return {gate.name: gate.ok for gate in found.gates}


def test_single_stream_is_valid_only_with_a_certified_p90() -> None:
    load = dataclasses.replace(closed("single_stream"), is_at_least=True)
    rows = [row(at_ns=at * S) for at in range(64)]
    enough = result_of(frame(rows), END, measured_phase=1, scheduled=64)
    few = result_of(frame(rows[:63]), END, measured_phase=1, scheduled=63)
    assert official(load, enough)["certified_latency_p90_ms"]
    assert not official(load, few)["certified_latency_p90_ms"]


def test_server_is_valid_only_where_every_limit_is_certain() -> None:
    load = workload(requests=None)
    measured = dataclasses.replace(load, requests=700, is_at_least=True)
    kept = checked_by(served(measured, slots=8, service_s=0.1, slo=LIMITS), measured, with_preset(load, "quick", {})[2])
    slow = checked_by(served(measured, slots=8, service_s=0.6, slo=LIMITS), measured, with_preset(load, "quick", {})[2])
    assert kept.valid
    assert {gate.name for gate in slow.gates if not gate.ok} == {"ttft_p99_over"}
    assert not slow.valid


def test_a_query_lasts_as_long_as_its_longest_sample() -> None:
    rows = [row(ttft_ms=ms) | {"ordinal": ordinal} for ordinal, ms in enumerate([10, 20, 30, 40, 5, 50])]
    rows[3] = row(error="timeout: slow") | {"ordinal": 3}
    grouping = Grouping(streams=2, is_by_stream=True, samples_per_query=2)
    found = result_of(frame(rows), END, measured_phase=1, scheduled=6, grouping=grouping)
    p50, _, p99 = found.statistics.percentiles["query_latency_ms"]
    # Queries of 30 ms, one that failed, and one of 60 ms; a row's last token is 10 ms after its first.
    assert (p50.n, p50.failed, p50.plain, p50.adjusted) == (3, 1, 30.0, 60.0)
    assert p99.adjusted is None


def test_multi_stream_is_valid_only_with_enough_queries() -> None:
    load = dataclasses.replace(closed("multi_stream"), is_at_least=True)
    rows = [row(at_ns=at * S) | {"ordinal": at} for at in range(16)]
    grouping = Grouping(streams=8, is_by_stream=True, samples_per_query=8)
    few = result_of(frame(rows), END, measured_phase=1, scheduled=16, grouping=grouping)
    assert not official(load, few)["certified_query_latency_p99_ms"]
