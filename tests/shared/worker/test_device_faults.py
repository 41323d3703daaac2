"""Faults of GPUs, as a library in place of the driver reports them to a real process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.nvml import FakeDriver, fake_driver
from vlmhyperbench.worker.device_faults import XIDS_OF_APPLICATIONS

WATCH = """
import json, sys
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.device_faults import GpuFaults
from vlmhyperbench.worker.devices import devices_of_worker
faults = GpuFaults(devices_of_worker(Settings.load()))
print(faults.watches, flush=True)
for line in sys.stdin:
    print(json.dumps([[fault.device.uuid, fault.reason] for fault in faults.wait(0.2)]), flush=True)
"""


class Watching:
    """A process that watches the GPUs of a worker."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.watches = self._read() == "True"

    def look(self) -> dict[str, str]:
        """Return the devices with a fault, and the reason of each."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return dict(json.loads(self._read().splitlines()[-1]))

    def _read(self) -> str:
        assert self._process.stdout is not None
        while not (line := self._process.stdout.readline().strip()).startswith(("[[", "[]", "True", "False")):
            assert line, "the process has ended"  # a line of the log
        return line


@contextmanager
def watching(driver: FakeDriver, **environment: str) -> Iterator[Watching]:
    env = {**os.environ, "LD_LIBRARY_PATH": str(driver.folder), **environment}
    with subprocess.Popen(
        [sys.executable, "-c", WATCH], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Watching(process)
        finally:
            process.kill()


def test_an_error_of_the_hardware_is_a_fault_of_its_gpu_only_once(tmp_path: Path) -> None:
    driver = fake_driver(tmp_path, gpus=2)
    with watching(driver) as watch:
        assert watch.look() == {}
        driver.report_xid(1, 48)
        assert watch.look() == {driver.gpus[1]: "The driver reported Xid 48."}
        assert watch.look() == {}


def test_many_errors_are_one_fault_of_each_gpu(tmp_path: Path) -> None:
    driver = fake_driver(tmp_path, gpus=2)
    with watching(driver) as watch:
        for xid in (13, 48, 63, 95, 31):
            driver.report_xid(0, xid)
            driver.report_xid(1, xid + 1)
        assert watch.look() == {
            driver.gpus[0]: "The driver reported Xid 48.",
            driver.gpus[1]: "The driver reported Xid 14.",
        }
        assert watch.look() == {}


def test_a_worker_hears_nothing_of_the_gpus_of_others(tmp_path: Path) -> None:
    driver = fake_driver(tmp_path, gpus=2)
    with watching(driver, VLMHB_DEVICES=driver.gpus[0]) as watch:
        driver.report_xid(1, 48)
        driver.lose(1)
        assert watch.look() == {}


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 109])
def test_an_error_of_an_application_is_no_fault(tmp_path: Path, xid: int) -> None:
    assert xid in XIDS_OF_APPLICATIONS
    driver = fake_driver(tmp_path)
    with watching(driver) as watch:
        driver.report_xid(0, xid)
        assert watch.look() == {}
        driver.report_xid(0, 79)
        assert watch.look() == {driver.gpus[0]: "The driver reported Xid 79."}


def test_a_gpu_that_is_gone_is_a_fault_until_it_is_back(tmp_path: Path) -> None:
    driver = fake_driver(tmp_path, gpus=2)
    with watching(driver) as watch:
        driver.lose(0)
        for _ in range(2):
            assert list(watch.look()) == [driver.gpus[0]]
        driver.restore(0)
        assert watch.look() == {}
        driver.report_xid(0, 48)
        assert watch.look() == {driver.gpus[0]: "The driver reported Xid 48."}


def test_the_errors_of_a_gpu_are_heard_though_another_one_sends_none(tmp_path: Path) -> None:
    driver = fake_driver(tmp_path, gpus=2)
    driver.others = {0}
    driver.write()
    with watching(driver) as watch:
        driver.report_xid(1, 48)
        assert watch.look() == {driver.gpus[1]: "The driver reported Xid 48."}
        driver.lose(0)
        assert list(watch.look()) == [driver.gpus[0]]


def test_an_error_of_one_mig_slice_leaves_the_others_alone(tmp_path: Path) -> None:
    driver = fake_driver(tmp_path, slices_of=[0, 0])
    high = driver.slices[1][1]
    with watching(driver, VLMHB_DEVICES=high) as watch:
        driver.report_xid(0, 48, instance=1)
        assert watch.look() == {}
        driver.report_xid(0, 48, instance=2)
        assert list(watch.look()) == [high]
        driver.report_xid(0, 48)  # of the whole GPU
        assert list(watch.look()) == [high]


def test_there_is_nothing_to_watch_without_a_driver(tmp_path: Path) -> None:
    with watching(fake_driver(tmp_path, gpus=0)) as watch:
        assert not watch.watches
