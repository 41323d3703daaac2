"""The ground of a worker, read from the real kernel in a separate process, which may pin itself."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.devices import DeviceInfo
from vlmhyperbench.worker.ground import ground, machine_id, pin
from vlmhyperbench_sdk.errors import InvalidInput

GPU = DeviceInfo(no=0, kind="gpu", uuid="GPU-1", name="gpu", memory_bytes=1)
CPU = DeviceInfo(no=0, kind="cpu", uuid="cpu-here", name="cpu", memory_bytes=1)
CORE = min(os.sched_getaffinity(0))
PROBE = """
import json, os, subprocess, sys
from vlmhyperbench.worker.ground import ground, pin
pin(frozenset({int(sys.argv[1])}))
child = subprocess.run([sys.executable, "-c", "import os; print(sorted(os.sched_getaffinity(0)))"], capture_output=True)
print(json.dumps([sorted(ground([]).cores), json.loads(child.stdout)]))
"""


def test_the_children_of_a_pinned_process_run_on_its_cores() -> None:
    shown = subprocess.run([sys.executable, "-c", PROBE, str(CORE)], capture_output=True, check=True)
    own, inherited = json.loads(shown.stdout)
    assert inherited == [CORE]
    assert CORE in own
    siblings = Path(f"/sys/devices/system/cpu/cpu{CORE}/topology/thread_siblings_list").read_text()
    assert len(own) == 1 or "," in siblings or "-" in siblings


def test_an_engine_that_runs_elsewhere_is_part_of_the_ground() -> None:
    everything = ground([])
    with subprocess.Popen([sys.executable, "-c", PROBE, str(CORE)], stdout=subprocess.DEVNULL) as child:
        assert ground([], pids=[child.pid]).cores >= everything.cores
    assert ground([], pids=[child.pid]) == everything


def test_the_ground_has_gpus_by_id_and_cpu_slots_by_cores() -> None:
    assert ground([GPU, CPU]).gpus == {"GPU-1"}


def test_a_machine_is_identified_by_the_kernel_s_boot_or_else_its_name(tmp_path: Path) -> None:
    assert machine_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert machine_id(tmp_path / "none") == socket.gethostname()


def test_cores_that_the_machine_lacks_are_refused_and_named() -> None:
    with pytest.raises(InvalidInput, match="9999"):
        pin(frozenset({CORE, 9999}))
    pin(frozenset())


def test_cores_are_set_in_the_kernel_s_notation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VLMHB_HOME", str(tmp_path))
    assert Settings.load().inference_cores == frozenset()
    monkeypatch.setenv("VLMHB_INFERENCE_CORES", "0-2,8")
    assert Settings.load().inference_cores == {0, 1, 2, 8}
    monkeypatch.setenv("VLMHB_INFERENCE_CORES", "3-1")
    with pytest.raises(InvalidInput, match="VLMHB_INFERENCE_CORES"):
        Settings.load()
