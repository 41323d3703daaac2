"""What presets demand of a load, and the results that pass their gates."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.shared.analysis.records import END, S, frame, row
from tests.shared.load.queueing import served, workload
from tests.support.wording import Wording
from vlmhyperbench.analysis.load_design import Grouping
from vlmhyperbench.analysis.load_result import LoadResult, result_of
from vlmhyperbench.domain.arrivals import Arrivals
from vlmhyperbench.load.bodies import RequestContent
from vlmhyperbench.load.presets import Preset, with_preset, with_preset_gates
from vlmhyperbench.load.workload import Workload, check_load
from vlmhyperbench.load.writing import write_load
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.load import Endpoint

LIMITS = {"ttft_p99": 500.0, "tpot_p99": 50.0}


def closed(scenario: str, **changes: object) -> Workload:
    return workload(**{"scenario": scenario, "arrivals": None, "requests": None, **changes})


def test_quick_lasts_10_seconds_and_is_marked(wording: Wording) -> None:
    load, slo, used = with_preset(closed("offline"), "quick", {})
    assert (load.duration_s, load.is_at_least, slo) == (10.0, False, {})
    assert used.name == "quick"
    wording(used.note)


@pytest.mark.parametrize(
    ("scenario", "min_requests"), [("single_stream", 64), ("multi_stream", 8 * 662), ("offline", 24_576)]
)
def test_official_has_the_minimum_numbers_of_mlperf(scenario: str, min_requests: int) -> None:
    load, _, used = with_preset(closed(scenario), "official", {})
    assert (load.duration_s, load.is_at_least, load.min_requests) == (600.0, True, min_requests)
    assert load.samples_per_query == (8 if scenario == "multi_stream" else 0)
    assert "MLPerf" in used.note


def test_official_server_needs_limits_on_p99_of_ttft_and_tpot(wording: Wording) -> None:
    load, slo, _ = with_preset(workload(requests=None), "official", LIMITS)
    assert (load.min_requests, slo) == (662, LIMITS)
    with pytest.raises(InvalidInput) as refused:
        with_preset(workload(requests=None), "official", {"ttft_p99": 500.0, "tpot_p90": 50.0})
    wording(refused.value)


def test_vlm_adds_images_and_a_limit_on_the_latency(wording: Wording) -> None:
    load, slo, used = with_preset(workload(requests=None), "vlm", {})
    assert slo == {"latency_p99": 12_000.0}
    assert load.content.images is not None
    assert (load.content.images.count, load.content.images.reuse, len(load.content.images.sizes)) == (1, 0.0, 3)
    assert load.content.prompt_tokens > 0
    wording(used.note)


def test_vlm_keeps_the_given_images() -> None:
    asked = RequestContent(model="m", prompt="", media=("data:image/png;base64,AA",), prompt_tokens=7)
    load, _, _ = with_preset(closed("single_stream", content=asked), "vlm", {})
    assert (load.content.images, load.content.prompt_tokens) == (None, 7)


@pytest.mark.parametrize(
    ("preset", "load"),
    [
        ("quick", closed("offline", requests=5)),
        ("quick", closed("offline", duration_s=9.0)),
        ("official", closed("offline", duration_s=60.0)),
        ("official", closed("multi_stream", streams=4)),
        ("official", workload(requests=None, arrivals=Arrivals(process="constant", rate_per_s=1.0))),
    ],
    ids=["requests", "10 s", "600 s", "concurrency", "arrivals"],
)
def test_a_load_that_breaks_a_preset_is_refused(preset: Preset, load: Workload, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        with_preset(load, preset, LIMITS)
    wording(refused.value)


@pytest.mark.parametrize("preset", ["quick", "official", "vlm"])
@pytest.mark.parametrize("scenario", ["interactive", "server"])
def test_a_preset_without_a_rate_names_a_cure_that_works(preset: Preset, scenario: str) -> None:
    load, limits = closed(scenario, turns=2), LIMITS | {"latency_p99": 9000.0}
    with pytest.raises(InvalidInput, match=f"--preset {preset} of {scenario}") as refused:
        with_preset(load, preset, limits)
    assert "--rate" in refused.value.cure
    helped = dataclasses.replace(load, arrivals=Arrivals(process="poisson", rate_per_s=1.0))
    check_load(with_preset(helped, preset, limits)[0])


def test_an_official_schedule_is_not_shorter_than_its_duration(tmp_path: Path) -> None:
    load, _, _ = with_preset(workload(requests=None), "official", LIMITS)
    check_load(load)
    written = write_load(tmp_path, load, Endpoint(url="http://h/v1"))
    assert written.open_loop is not None
    instants = written.open_loop.scheduled_ns
    assert instants[-2] - instants[0] < 600 * S <= instants[-1] - instants[0]


def test_an_official_schedule_is_longer_at_a_low_rate() -> None:
    slow = Arrivals(process="poisson", rate_per_s=0.5)
    load, _, _ = with_preset(workload(requests=None, arrivals=slow), "official", LIMITS)
    check_load(load)
    assert load.min_requests == 662


def test_a_closed_loop_is_planned_only_when_its_number_of_requests_is_known(tmp_path: Path, wording: Wording) -> None:
    load, _, _ = with_preset(closed("offline"), "quick", {})
    check_load(load)
    with pytest.raises(InvalidInput) as refused:
        write_load(tmp_path, load, Endpoint(url="http://h/v1"))
    wording(refused.value)


def official(load: Workload, result: LoadResult) -> dict[str, bool]:
    checked = with_preset_gates(result, load, with_preset(load, "official", LIMITS)[2])
    assert checked.preset is not None
    return {gate.name: gate.ok for gate in checked.gates}


def test_single_stream_is_valid_only_with_a_certified_p90() -> None:
    load = dataclasses.replace(closed("single_stream"), is_at_least=True)
    rows = [row(at_ns=at * S) for at in range(64)]
    enough = result_of(frame(rows), END, measured_phase=1, scheduled=64)
    few = result_of(frame(rows[:63]), END, measured_phase=1, scheduled=63)
    assert official(load, enough)["certified_latency_p90_ms"]
    assert not official(load, few)["certified_latency_p90_ms"]


def test_server_is_valid_only_if_every_limit_is_certainly_kept() -> None:
    load = workload(requests=None)
    measured = dataclasses.replace(load, requests=700, is_at_least=True)
    kept = with_preset_gates(
        served(measured, slots=8, service_s=0.1, slo=LIMITS), measured, with_preset(load, "quick", {})[2]
    )
    slow = with_preset_gates(
        served(measured, slots=8, service_s=0.6, slo=LIMITS), measured, with_preset(load, "quick", {})[2]
    )
    assert kept.valid
    assert {gate.name for gate in slow.gates if not gate.ok} == {"ttft_p99_over"}
    assert not slow.valid


def test_a_query_lasts_as_long_as_its_longest_sample() -> None:
    rows = [row(ttft_ms=ms) | {"ordinal": ordinal} for ordinal, ms in enumerate([10, 20, 30, 40, 5, 50])]
    rows[3] = row(error="timeout: slow") | {"ordinal": 3}
    grouping = Grouping(streams=2, is_by_stream=True, samples_per_query=2)
    result = result_of(frame(rows), END, measured_phase=1, scheduled=6, grouping=grouping)
    p50, _, p99 = result.statistics.percentiles["query_latency_ms"]
    # Queries of 30 ms, one that failed, and one of 60 ms; a row's last token is 10 ms after its first.
    assert (p50.n, p50.failed, p50.plain, p50.adjusted) == (3, 1, 30.0, 60.0)
    assert p99.adjusted is None


def test_multi_stream_is_valid_only_with_enough_queries() -> None:
    load = dataclasses.replace(closed("multi_stream"), is_at_least=True)
    rows = [row(at_ns=at * S) | {"ordinal": at} for at in range(16)]
    grouping = Grouping(streams=8, is_by_stream=True, samples_per_query=8)
    few = result_of(frame(rows), END, measured_phase=1, scheduled=16, grouping=grouping)
    assert not official(load, few)["certified_query_latency_p99_ms"]
