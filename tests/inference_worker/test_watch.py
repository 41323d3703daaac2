"""Device samples: taken at a steady pace, summarised over the measured window only."""

import asyncio
import io
import os
import time
from dataclasses import replace
from types import SimpleNamespace

import polars
import pynvml
import pytest

from tests.support.processes import PATIENCE_S
from vlmhyperbench.domain.identity import kind_of_machine
from vlmhyperbench.worker import nvml
from vlmhyperbench.worker.devices import DeviceInfo
from vlmhyperbench.worker.machine import machine
from vlmhyperbench_inference_worker.room import Room, peak_of
from vlmhyperbench_inference_worker.samples import (
    DeviceSample,
    open_samples,
    read_samples,
    samples_parquet,
    write_sample,
)
from vlmhyperbench_inference_worker.watch import UNKNOWN_MEMORY, Watch


async def until(holds):
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - the sampler has no event to wait for
            await asyncio.sleep(0.01)


@pytest.mark.anyio
async def test_a_watched_process_shows_its_memory_within_the_window(tmp_path):
    async with Watch([], interval_s=0.01, file=tmp_path / "samples") as watch:
        watch.engine_pid = os.getpid()
        start = time.monotonic_ns()
        await until(lambda: len(read_samples(tmp_path / "samples")) >= 5)
        summary = watch.summary(start, time.monotonic_ns())
    assert summary.samples >= 4
    assert summary.engine_rss_bytes_peak > 1_000_000
    assert summary.accelerator_memory_used_bytes_peak is None
    assert summary.energy_accelerator_j is None


@pytest.mark.anyio
async def test_a_window_without_samples_has_no_numbers():
    async with Watch([], interval_s=0.01) as watch:
        summary = watch.summary(0, 1)
    assert summary.samples == 0
    assert summary.cpu_util_percent_mean is None


@pytest.mark.anyio
async def test_a_process_that_is_gone_is_no_error():
    async with Watch([], interval_s=0.01) as watch:
        watch.engine_pid = 2**22 - 1
        await until(lambda: watch.latest() is not None)
    newest = watch.latest()
    assert newest is not None
    assert (newest.engine_rss_bytes, newest.memory_used_bytes > 0) == (None, True)


@pytest.mark.anyio
async def test_of_an_engine_on_a_rented_machine_nothing_of_this_machine_is_recorded(tmp_path):
    async with Watch([], interval_s=0.01, file=tmp_path / "samples", is_elsewhere=True) as watch:
        start = time.monotonic_ns()
        assert watch.summary(start, time.monotonic_ns()) is None
        assert watch.memory_between(start, time.monotonic_ns()) == UNKNOWN_MEMORY
        assert (watch.latest(), watch.min_accelerator_memory(start)) == (None, None)
    assert not (tmp_path / "samples").exists()


def test_the_machine_is_described():
    devices = [DeviceInfo(no=0, kind="gpu", uuid="GPU-1", name="H100", memory_bytes=80)]
    described = machine(devices)
    assert described["devices"] == [{"kind": "gpu", "name": "H100", "memory_bytes": 80, "uuid": "GPU-1"}]
    assert kind_of_machine(described).endswith(" threads, H100")
    assert described["cpu_cores"] >= 1
    assert described["memory_total_bytes"] > 0
    assert described["kernel"]


def test_the_samples_of_a_writer_that_died_in_the_middle_of_a_line_are_a_table_of_whole_rows(tmp_path):
    path = tmp_path / "samples"
    with open_samples(path) as file:
        for at in (1, 2):
            write_sample(file, replace(SAMPLE, monotonic_ns=at))
        file.write(b"[3, 4, 5.0, ")
    table = polars.read_parquet(io.BytesIO(samples_parquet(read_samples(path))))
    assert table["monotonic_ns"].to_list() == [1, 2]
    assert table["accelerator_memory_used_bytes"].to_list() == [None, None]
    assert (table["cpu_util_percent"].dtype, table["memory_used_bytes"].dtype) == (polars.Float64, polars.Int64)


SAMPLE = DeviceSample(
    monotonic_ns=0,
    wall_ns=0,
    cpu_util_percent=1.0,
    memory_used_bytes=1,
    engine_rss_bytes=None,
    accelerator_memory_used_bytes=None,
    accelerator_util_percent=None,
    power_accelerator_w=None,
    temperature_accelerator_c=None,
)
GPU = DeviceInfo(no=0, kind="gpu", uuid="GPU-1", name="H100", memory_bytes=80)


def watched_memory(used: list[int | None]) -> Watch:
    """A watch that took a sample every 100 ns, from 0 on."""
    watch = Watch([GPU])
    watch._samples += [
        replace(SAMPLE, monotonic_ns=number * 100, accelerator_memory_used_bytes=value)
        for number, value in enumerate(used)
    ]
    return watch


def test_the_peak_of_a_target_is_unknown_where_others_may_have_taken_of_it():
    room, watch = Room(devices=(GPU,)), watched_memory([20, 60])
    assert peak_of(room, watch, 20, is_beside=False) == 40
    assert peak_of(replace(room, devices=(GPU, GPU)), watch, 20, is_beside=False) == 20
    assert peak_of(room, watch, 20, is_beside=True) is None
    assert peak_of(replace(room, is_alone=False), watch, 20, is_beside=False) is None
    assert peak_of(room, watch, None, is_beside=False) is None
    assert peak_of(room, watched_memory([None]), 20, is_beside=False) is None


@pytest.mark.parametrize(
    ("start", "end", "before", "peak"),
    [
        (150, 320, 20, 60),
        (150, 190, 20, 20),  # shorter than the time between two samples
        (200, 300, 60, 60),
        (350, 900, 50, 50),
        (-10, 50, 10, 10),  # sent before the first sample
    ],
)
def test_a_request_has_the_memory_before_it_and_its_peak(start, end, before, peak):
    memory = watched_memory([10, 20, 60, 50]).memory_between(start, end)
    assert (memory.before_bytes, memory.peak_bytes) == (before, peak)


def test_the_memory_of_a_request_is_unknown_without_an_accelerator_or_with_a_gap_in_its_samples():
    for used in ([], [None, None], [10, None, 20]):
        assert watched_memory(used).memory_between(0, 900) == UNKNOWN_MEMORY
    assert watched_memory([10, None, 20]).memory_between(200, 900).peak_bytes == 20


@pytest.mark.parametrize(("users", "peak"), [({1, 2}, 20), ({1}, 20), ({1, 2, 3}, None), (set(), 20), ({70, 71}, 20)])
def test_the_memory_of_a_request_is_unknown_while_other_processes_use_its_accelerator(monkeypatch, users, peak):
    """Ids of which none is the engine's are those of another namespace, about which nothing can be said."""
    monkeypatch.setattr(nvml, "processes", lambda _: users)
    watch = watched_memory([10, 20])
    watch._find_strangers({1, 2})
    assert watch.memory_between(0, time.monotonic_ns()).peak_bytes == peak


def test_the_memory_before_a_load_is_the_smallest_since_its_start():
    watch = watched_memory([5, 40, 10, 30, 60])
    assert (watch.min_accelerator_memory(100), watch.min_accelerator_memory(900)) == (10, None)


def test_the_processes_on_a_gpu_are_unknown_where_the_driver_does_not_say_them(monkeypatch):
    def refused(_: object) -> list[object]:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)

    monkeypatch.setattr(nvml, "is_available", lambda: True)
    monkeypatch.setattr(nvml, "handle_of", {"GPU-0": 0, "GPU-1": 1}.__getitem__)
    monkeypatch.setattr(
        pynvml, "nvmlDeviceGetComputeRunningProcesses", lambda no: [SimpleNamespace(pid=no + 7), SimpleNamespace(pid=9)]
    )
    assert nvml.processes(["GPU-0", "GPU-1"]) == {7, 8, 9}
    monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses", refused)
    assert nvml.processes(["GPU-0", "GPU-1"]) == set()


def watched(power_w: list[float | None]) -> Watch:
    """A watch that took a sample every 100 ms, from 50 ms on."""
    watch = Watch([])
    for number, watts in enumerate(power_w):
        watch._sample()
        at = 50_000_000 + number * 100_000_000
        watch._samples[-1] = replace(watch._samples[-1], monotonic_ns=at, power_accelerator_w=watts)
    return watch


@pytest.mark.parametrize("seconds", [0.3, 1.0])
def test_the_energy_of_a_window_covers_the_whole_window(seconds):
    watch = watched([300.0] * 10)
    assert watch.summary(0, round(seconds * 1e9)).energy_accelerator_j == pytest.approx(300 * seconds)


def test_the_energy_of_a_window_is_unknown_if_too_many_power_samples_are_missing():
    assert watched([300.0] * 5 + [None] * 5).summary(0, 1_000_000_000).energy_accelerator_j is None
    assert watched([300.0] * 5).summary(0, 1_000_000_000).energy_accelerator_j is None
    assert watched([300.0]).summary(0, 100_000_000).energy_accelerator_j is None


def test_a_sum_over_gpus_is_unknown_if_one_of_them_does_not_report_it(monkeypatch):
    def power(handle: int) -> int:
        if handle:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return 300_000

    def unknown(*_: object) -> int:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    monkeypatch.setattr(nvml, "is_available", lambda: True)
    monkeypatch.setattr(nvml, "handle_of", {"GPU-0": 0, "GPU-1": 1}.__getitem__)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerUsage", power)
    for other in ("MemoryInfo", "UtilizationRates", "Temperature"):
        monkeypatch.setattr(pynvml, f"nvmlDeviceGet{other}", unknown)
    assert nvml.read(["GPU-0"]).power_w == 300
    assert nvml.read(["GPU-0", "GPU-1"]).power_w is None
