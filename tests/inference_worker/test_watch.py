"""Device samples: taken at a steady pace, summarised over the measured window only."""

import asyncio
import io
import os
import time
from dataclasses import replace

import polars
import psutil
import pynvml
import pytest

from vlmhyperbench.domain.identity import kind_of_machine
from vlmhyperbench.worker.devices import DeviceInfo
from vlmhyperbench_inference_worker import nvml
from vlmhyperbench_inference_worker.watch import Watch, machine


async def until(holds):
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - the sampler has no event to wait for
            await asyncio.sleep(0.01)


@pytest.mark.anyio
async def test_a_watched_process_shows_its_memory_within_the_window():
    async with Watch([], interval_s=0.01) as watch:
        watch.engine_pid = os.getpid()
        start = time.monotonic_ns()
        await until(lambda: len(polars.read_parquet(io.BytesIO(watch.parquet()))) >= 5)
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


def test_the_machine_is_described():
    devices = [DeviceInfo(no=0, kind="gpu", uuid="GPU-1", name="H100", memory_bytes=80)]
    described = machine(devices)
    assert described["devices"] == [{"kind": "gpu", "name": "H100", "memory_bytes": 80}]
    assert kind_of_machine(described).endswith(" threads, H100")
    assert described["cpu_cores"] >= 1
    assert described["memory_total_bytes"] > 0
    assert described["kernel"]


def test_a_table_that_is_made_while_a_sample_is_taken_has_whole_rows(monkeypatch):
    watch, tables, memory = Watch([]), [], psutil.virtual_memory

    def asked_meanwhile():
        tables.append(polars.read_parquet(io.BytesIO(watch.parquet())))
        return memory()

    monkeypatch.setattr(psutil, "virtual_memory", asked_meanwhile)
    for _ in range(3):
        watch._sample()
    assert [table.height for table in tables] == [0, 1, 2]
    assert tables[2]["cpu_util_percent"].dtype == polars.Float64


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

    monkeypatch.setattr(nvml, "_is_available", lambda: True)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda no: no)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerUsage", power)
    for other in ("MemoryInfo", "UtilizationRates", "Temperature"):
        monkeypatch.setattr(pynvml, f"nvmlDeviceGet{other}", unknown)
    assert nvml.read([0]).power_w == 300
    assert nvml.read([0, 1]).power_w is None
