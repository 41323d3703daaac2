"""Device samples: taken at a steady pace, summarised over the measured window only."""

import asyncio
import io
import os
import time

import polars
import pytest

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
        await until(lambda: bool(watch.latest()))
    assert watch.latest()["engine_rss_bytes"] is None


def test_the_machine_is_described():
    found = machine()
    assert found["cpu_cores"] >= 1
    assert found["memory_total_bytes"] > 0
    assert found["kernel"]
