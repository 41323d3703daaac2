"""Repeats, sweeps and searches over results of a simulated queue."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from tests.shared.load.queueing import served, workload
from tests.support.wording import Wording
from vlmhyperbench.analysis.load_metrics import Until, value_of
from vlmhyperbench.analysis.load_result import LoadResult
from vlmhyperbench.analysis.validity import at_most
from vlmhyperbench.domain.arrivals import Arrivals
from vlmhyperbench.load.idle import IdleProbe
from vlmhyperbench.load.measure import Control
from vlmhyperbench.load.pairs import measure_in_pairs
from vlmhyperbench.load.search import requests_of_probe, search_rate
from vlmhyperbench.load.series import at_value, repeat, sweep
from vlmhyperbench.load.workload import Workload, check_load
from vlmhyperbench_sdk.errors import InvalidInput, Unavailable

pytestmark = pytest.mark.anyio

SLO = {"ttft_p90": 200.0}
CERTAINTY = 0.995


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Server:
    """Two slots of 20 ms a request: 100 requests a second."""

    def __init__(self, change: Callable[[LoadResult, int], LoadResult] = lambda result, _: result) -> None:
        self.asked: list[tuple[Workload, str]] = []
        self.control = Control(report=lambda _: None)
        self._change = change

    async def measure(self, load: Workload, name: str = "") -> LoadResult:
        self.asked.append((load, name))
        result = served(load, slots=2, service_s=0.02, slo=SLO, certainty=CERTAINTY)
        return self._change(result, len(self.asked))

    def idle(self, load: Workload) -> IdleProbe:
        async def ask(probe: Workload) -> LoadResult:
            check_load(probe)
            return served(probe, slots=2, service_s=0.02)

        return IdleProbe(load, ask)


async def test_repeats_have_seeds_of_their_own_and_an_interval_between_them() -> None:
    server = Server()
    found = await repeat(workload(), server.measure, server.control, max_repeats=3)
    assert [(load.seed, name) for load, name in server.asked] == [(1, "001"), (2, "002"), (3, "003")]
    ttft = found.metrics["ttft_p50"]
    values = [value_of(run, "ttft_p50") for run in found.runs]
    assert (ttft.n, ttft.mean) == (3, pytest.approx(sum(value or 0 for value in values) / 3))
    assert ttft.low is not None
    assert ttft.high is not None
    assert ttft.low < 20.1 < ttft.high + 1
    assert (found.valid, found.stopped) == (True, None)


async def test_repeats_stop_as_soon_as_the_metric_is_precise() -> None:
    server = Server()
    found = await repeat(
        workload(), server.measure, server.control, max_repeats=9, until=Until(metric="ttft_p50", precision=0.5)
    )
    assert len(found.runs) == 3
    assert found.stopped is not None
    assert found.stopped.is_reached
    assert found.stopped.mean is not None
    assert found.stopped.mean.confidence == pytest.approx(0.975)
    # An interval that decided when to stop must be wider than that of a fixed number of repeats.
    assert found.metrics
    assert all(mean.confidence == pytest.approx(0.975) for mean in found.metrics.values())


async def test_repeats_that_never_become_precise_are_marked() -> None:
    server = Server()
    until = Until(metric="requests_per_s", precision=1e-9)
    found = await repeat(workload(), server.measure, server.control, max_repeats=4, until=until)
    assert len(found.runs) == 4
    assert found.stopped is not None
    assert not found.stopped.is_reached


async def test_an_invalid_repeat_makes_the_series_invalid() -> None:
    def spoil(result: LoadResult, number: int) -> LoadResult:
        return dataclasses.replace(result, valid=number != 2)

    server = Server(spoil)
    assert not (await repeat(workload(), server.measure, server.control, max_repeats=3)).valid


async def test_a_stopped_series_keeps_its_finished_measurements() -> None:
    server = Server()

    def stop(result: LoadResult, number: int) -> LoadResult:
        if number == 2:
            server.control.stop()
        return result

    stopping = Server(stop)
    found = await repeat(workload(), stopping.measure, server.control, max_repeats=5)
    assert (len(found.runs), found.valid) == (2, False)


async def test_an_interrupted_measurement_is_an_error_only_if_there_is_no_earlier_result() -> None:
    server = Server()

    async def fail(load: Workload, name: str) -> LoadResult:
        if name == "001":
            return await server.measure(load, name)
        server.control.stop()
        raise Unavailable("Nothing was measured: it was cancelled.")

    assert len((await repeat(workload(), fail, server.control, max_repeats=3)).runs) == 1
    late = Server()

    async def never(load: Workload, name: str) -> LoadResult:
        raise Unavailable("Nothing was measured: refused.")

    with pytest.raises(Unavailable):
        await repeat(workload(), never, late.control, max_repeats=3)


@pytest.mark.parametrize("name", ["speed", "itl_p99", "ttft_p95", "ttft", "latency_max"])
async def test_an_unknown_metric_is_refused(name: str) -> None:
    server = Server()
    with pytest.raises(InvalidInput, match=f"--precision-of {name}"):
        await repeat(workload(), server.measure, server.control, max_repeats=3, until=Until(metric=name, precision=0.1))
    assert server.asked == []


async def test_metrics_are_read_from_a_result() -> None:
    result = await Server().measure(workload(requests=5))
    assert value_of(result, "latency_mean") == pytest.approx(30.0, abs=1)
    assert value_of(result, "tpot_p99") == pytest.approx(10.0)
    assert value_of(result, "requests_per_s") == result.metrics["requests_per_s"]


async def test_a_sweep_measures_each_rate() -> None:
    server = Server()
    load = workload(requests=400, max_in_flight=400)
    found = await sweep(
        load, server.measure, server.control, axis="rate", values=(25.0, 50.0, 400.0), idle=server.idle(load)
    )
    assert [(measured.seed, name) for measured, name in server.asked] == [
        (1, "rate-25"),
        (2, "rate-50"),
        (3, "rate-400"),
    ]
    assert found.idle_ttft_ms == pytest.approx(20.0)
    rates = [point.result.metrics["requests_per_s"] for point in found.points]
    # Beyond 100 a second only the queue grows.
    assert rates == [pytest.approx(25.0, rel=0.15), pytest.approx(50.0, rel=0.15), pytest.approx(100.0, rel=0.02)]
    assert [point.settled_s is not None for point in found.points] == [True] * 3
    assert found.valid


async def test_a_stopped_sweep_is_not_valid() -> None:
    server = Server()
    server.control.stop()
    found = await sweep(
        workload(), server.measure, server.control, axis="rate", values=(5.0,), idle=server.idle(workload())
    )
    assert (found.points, found.valid) == ((), False)


def test_a_point_must_fit_its_scenario() -> None:
    closed = workload(scenario="offline", arrivals=None)
    assert at_value(closed, "concurrency", 4.0).streams == 4
    for load, axis, value in (
        (closed, "rate", 5.0),
        (workload(), "concurrency", 5.0),
        (closed, "concurrency", 1.5),
        (closed, "concurrency", 0.0),
        (workload(scenario="single_stream", arrivals=None), "concurrency", 2.0),
        (workload(scenario="multi_stream", arrivals=None, streams=8, samples_per_query=8), "concurrency", 2.0),
        (workload(arrivals=Arrivals(process="ramp", rate_per_s=5.0, last_rate_per_s=1.0)), "rate", 2.0),
    ):
        with pytest.raises(InvalidInput, match=f"--sweep {axis}"):
            at_value(load, axis, value)


async def test_the_search_finds_the_capacity() -> None:
    server = Server()
    load = workload(requests=1000)
    found = await search_rate(
        load, server.measure, server.control, slo=SLO, first_per_s=None, max_probes=10, idle=server.idle(load)
    )
    result = found.found
    # One request at a time makes 33 per second; two slots of 20 ms serve 100 per second.
    assert result.probes[0].rate_per_s == pytest.approx(1000 / 30, rel=0.01)
    assert result.passed_per_s is not None
    assert result.failed_per_s is not None
    assert 85.0 < result.passed_per_s < result.failed_per_s <= result.passed_per_s * 1.05
    assert result.failed_per_s < 115.0
    assert (found.valid, found.ended_by) == (True, None)
    failed = next(probe for probe in result.probes if not probe.passed)
    assert failed.reason is not None
    assert failed.reason.startswith("ttft_p90<200 ms: ")


async def test_a_search_in_which_nothing_passes_reaches_nothing() -> None:
    server = Server(lambda result, _: result)
    load = workload(requests=1000)

    async def slow(probe: Workload, name: str) -> LoadResult:
        return served(probe, slots=1, service_s=1.0, slo=SLO, certainty=CERTAINTY)

    found = await search_rate(
        load, slow, server.control, slo=SLO, first_per_s=10.0, max_probes=10, idle=server.idle(load)
    )
    assert (found.found.is_reached, found.valid, found.ended_by) == (False, False, None)
    # 10, 5 and 2.5 per second; at 1.25 a probe of 1000 requests would last more than 600 s.
    assert [probe.rate_per_s for probe in found.found.probes] == [10.0, 5.0, 2.5]


async def test_a_search_of_a_slow_server_begins_at_the_smallest_rate() -> None:
    server = Server()
    load = workload(requests=1200)

    async def slow(probe: Workload) -> LoadResult:
        return served(probe, slots=1, service_s=20.0)

    found = await search_rate(
        load, server.measure, server.control, slo=SLO, first_per_s=None, max_probes=1, idle=IdleProbe(load, slow)
    )
    # One at a time makes one in 20 s, at which 1200 requests would take more than six hours.
    assert [probe.rate_per_s for probe in found.found.probes] == [2.0]


async def test_a_probe_that_only_the_client_failed_is_repeated(wording: Wording) -> None:
    def be_late(result: LoadResult, number: int) -> LoadResult:
        gates = (*result.gates, at_most("send_lag_p99_ms", 9.0, 1.0))
        return dataclasses.replace(result, gates=gates, valid=False) if number <= 2 else result

    server = Server(be_late)
    load = workload(requests=1000)
    found = await search_rate(
        load, server.measure, server.control, slo=SLO, first_per_s=50.0, max_probes=1, idle=server.idle(load)
    )
    # The first probe is measured a third time, with another seed.
    assert [measured.seed for measured, _ in server.asked] == [1, 2, 3]
    assert (len(found.found.probes), len(found.runs), found.valid) == (1, 3, True)
    always = Server(lambda result, _: be_late(result, 0))
    found = await search_rate(
        load, always.measure, always.control, slo=SLO, first_per_s=50.0, max_probes=9, idle=always.idle(load)
    )
    assert (found.valid, found.found.probes, len(found.runs)) == (False, (), 3)
    wording(found.ended_by)


async def test_a_probe_with_too_many_errors_fails_because_of_the_server() -> None:
    def fail(result: LoadResult, number: int) -> LoadResult:
        return dataclasses.replace(result, gates=(at_most("error_share", 0.02, 0.001),), valid=False)

    server = Server(fail)
    load = workload(requests=1000)
    found = await search_rate(
        load, server.measure, server.control, slo=SLO, first_per_s=50.0, max_probes=1, idle=server.idle(load)
    )
    assert [(probe.passed, probe.reason) for probe in found.found.probes] == [(False, "error_share")]


async def test_a_limit_on_a_time_that_few_requests_have_ends_the_search(wording: Wording) -> None:
    server = Server()
    load = workload(requests=1000)

    async def silent(probe: Workload, name: str) -> LoadResult:
        result = served(probe, slots=2, service_s=0.02, slo=SLO, certainty=CERTAINTY)
        (limit,) = result.statistics.limits
        rare = dataclasses.replace(limit, name="tpot_p90", n=3, is_certain=False)
        return dataclasses.replace(result, statistics=dataclasses.replace(result.statistics, limits=(rare,)))

    found = await search_rate(
        load, silent, server.control, slo=SLO, first_per_s=50.0, max_probes=9, idle=server.idle(load)
    )
    wording(found.ended_by)
    assert (len(found.runs), found.valid) == (1, False)


def test_a_probe_has_as_many_requests_as_its_limits_need(wording: Wording) -> None:
    # 0.9 ** 51 is the first power below 0.005, so a probe without any request over a limit needs 51.
    assert requests_of_probe({"ttft_p90": 1.0}, 51, max_probes=10) == 51
    assert requests_of_probe({"ttft_p90": 1.0}, None, max_probes=10) > 51
    with pytest.raises(InvalidInput) as refused:
        requests_of_probe({"ttft_p90": 1.0}, 50, max_probes=10)
    assert "--requests 51" in refused.value.cure
    wording(refused.value)
    with pytest.raises(InvalidInput, match="--search-rate") as refused:
        requests_of_probe({}, None, max_probes=10)
    wording(refused.value)


async def test_a_series_does_not_begin_if_the_idle_server_fails() -> None:
    async def nothing(probe: Workload) -> LoadResult:
        result = served(probe, slots=1, service_s=0.01)
        empty = dataclasses.replace(next(iter(result.metrics.values())), p50=None)
        return dataclasses.replace(result, metrics=dict.fromkeys(result.metrics, empty), errors={"http_401": 1})

    with pytest.raises(Unavailable, match="http_401"):
        await IdleProbe(workload(), nothing).begin()


async def test_a_series_waits_until_the_server_is_as_fast_as_at_first() -> None:
    services = iter([0.01, 0.01, 0.5, 0.2, 0.02])
    seeds: list[int] = []

    async def ask(probe: Workload) -> LoadResult:
        seeds.append(probe.seed)
        assert (probe.requests, probe.scenario, probe.warmup) == (1, "single_stream", 0)
        return served(probe, slots=1, service_s=next(services))

    idle = IdleProbe(workload(), ask)
    assert await idle.begin() == pytest.approx(10.0)
    assert await idle.wait() is not None
    assert next(services, None) is None
    # A server answers a prompt of an earlier probe faster from its cache.
    assert len(set(seeds)) == 5


async def test_an_interrupted_pair_is_left_out() -> None:
    server = Server()

    async def side(load: Workload, which: str, name: str) -> LoadResult:
        if len(server.asked) == 3:
            server.control.stop()
            raise Unavailable("Nothing was measured: it was cancelled.")
        return await server.measure(load, name)

    found = await measure_in_pairs(workload(), side, server.control, urls=("a", "b"), pairs=3)
    assert (len(found.pairs), found.valid) == (1, False)
    # Both measurements of a pair have the same load and server, so their ratio is 1.
    assert found.ratios["ttft_p99"].ratio == 1.0
    assert [load.seed for load, _ in server.asked] == [1, 1, 2]


async def test_an_error_of_the_first_pair_is_raised() -> None:
    server = Server()

    async def side(load: Workload, which: str, name: str) -> LoadResult:
        raise Unavailable("Nothing was measured: refused.")

    with pytest.raises(Unavailable):
        await measure_in_pairs(workload(), side, server.control, urls=("a", "b"), pairs=3)
