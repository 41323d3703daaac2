"""The devices of a machine, of its workers, and of a declared inventory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.nvml import GIB, RESERVED, FakeDriver, fake_driver
from tests.support.wording import Wording
from vlmhyperbench.errors import InvalidInput, NotFound, VlmHyperBenchError
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.devices import DeviceInfo, devices_of_machine, devices_of_worker, show_only
from vlmhyperbench.worker.ground import affinity
from vlmhyperbench.worker.machine import machine
from vlmhyperbench.worker.shares import Share, shares_of_machine

TWO_KINDS = """
machine: box
devices:
  - {name: NVIDIA H100 80GB HBM3, memory_gib: 80, count: 2}
  - {kind: cpu, name: AMD EPYC, memory_gib: 0.5}
"""
DIVIDE = """
import json
from dataclasses import asdict
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.devices import devices_of_worker, show_only
from vlmhyperbench.worker.shares import shares_of_machine
import os
settings = Settings.load()
shares = [[device.uuid for device in share.devices] for share in shares_of_machine(settings, name="w")]
own = devices_of_worker(settings)
show_only(own)
print(json.dumps([shares, [asdict(device) for device in own], os.environ.get("CUDA_VISIBLE_DEVICES")]))
"""


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("vlmhyperbench.worker.nvml.is_available", lambda: False)
    monkeypatch.setenv("VLMHB_HOME", str(tmp_path))


def declared(tmp_path: Path, text: str = TWO_KINDS, **settings: object) -> Settings:
    path = tmp_path / "inventory.yaml"
    path.write_text(text)
    return Settings.model_validate({"inventory": path, **settings})


def uuids(devices: list[DeviceInfo] | tuple[DeviceInfo, ...]) -> list[str]:
    return [device.uuid for device in devices]


def test_a_machine_without_gpus_divides_its_memory_among_its_slots() -> None:
    [one] = devices_of_machine(Settings())
    assert (one.kind, one.is_declared) == ("cpu", False)
    several = devices_of_machine(Settings(cpu_workers=4))
    assert len(set(uuids(several))) == 4
    assert {device.memory_bytes for device in several} == {one.memory_bytes // 4}
    assert devices_of_worker(Settings(cpu_workers=4)) == several[:1]
    assert devices_of_worker(Settings(cpu_workers=4, devices=(several[2].uuid,))) == [several[2]]


def test_an_inventory_takes_the_place_of_the_devices_of_the_machine(tmp_path: Path) -> None:
    found = devices_of_machine(declared(tmp_path))
    assert uuids(found) == ["declared-box-0", "declared-box-1", "declared-box-2"]
    assert [(device.kind, device.memory_bytes) for device in found] == [
        ("gpu", 80 * 2**30),
        ("gpu", 80 * 2**30),
        ("cpu", 2**29),
    ]
    assert all(device.is_declared for device in found)
    assert machine(found)["declared"] is True
    assert "declared" not in machine(devices_of_machine(Settings()))


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("devices: []", "devices"),
        ("devices: [{name: x}]", "memory_gib"),
        ("devices: [{name: x, memory_gib: 0}]", "memory_gib"),
        ("devices: [{name: x, memory_gib: 1, count: 0}]", "count"),
        ("devices: [{kind: tpu, name: x, memory_gib: 1}]", "kind"),
        ("devices: [{name: x, memory_gib: 1, colour: red}]", "colour"),
        ("machine: ../x\ndevices: [{name: x, memory_gib: 1}]", "machine"),
    ],
)
def test_an_inventory_with_an_error_is_refused_with_its_field(tmp_path: Path, text: str, field: str) -> None:
    with pytest.raises(RegistryErrors) as refused:
        devices_of_machine(declared(tmp_path, text))
    assert field in str(refused.value)
    assert "inventory.yaml:" in str(refused.value)


def test_an_inventory_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegistryErrors, match=r"no\.yaml"):
        devices_of_machine(Settings(inventory=tmp_path / "no.yaml"))


def test_each_device_gets_a_worker_of_its_own_and_a_gang_one_together(tmp_path: Path) -> None:
    apart = shares_of_machine(declared(tmp_path), name="box")
    assert [(share.name, uuids(share.devices)) for share in apart] == [
        ("box-0", ["declared-box-0"]),
        ("box-1", ["declared-box-1"]),
        ("box-2", ["declared-box-2"]),
    ]
    ganged = shares_of_machine(declared(tmp_path, gangs=(("1", "declared-box-0"),)), name="box")
    assert [(share.name, uuids(share.devices)) for share in ganged] == [
        ("box-0", ["declared-box-1", "declared-box-0"]),
        ("box-1", ["declared-box-2"]),
    ]
    [alone] = shares_of_machine(declared(tmp_path, devices=("1",)), name="box")
    assert (alone.name, uuids(alone.devices)) == ("box", ["declared-box-1"])


def test_workers_get_cores_of_their_own_or_share_all_of_them(tmp_path: Path) -> None:
    for count in (1, 2, 1000):
        text = f"devices: [{{name: x, memory_gib: 1, count: {count}}}]"
        shares = shares_of_machine(declared(tmp_path, text), name="w")
        assert len(shares) == count
        given = [share.cores for share in shares]
        if any(given):
            assert sum(map(len, given)) == len(frozenset().union(*given)) <= len(affinity(0))
        assert ("VLMHB_INFERENCE_CORES" in shares[0].variables) == bool(given[0])
    assert not any(given)  # no machine has a thousand cores for them, so they are timed one after another


def test_a_worker_is_told_its_share() -> None:
    device = DeviceInfo(no=0, kind="gpu", uuid="GPU-1", name="x", memory_bytes=1)
    share = Share(name="box-1", devices=(device,), cores=frozenset({3, 1}))
    assert share.variables == {
        "VLMHB_WORKER_NAME": "box-1",
        "VLMHB_DEVICES": "GPU-1",
        "VLMHB_INFERENCE_CORES": "1,3",
    }


@pytest.mark.parametrize(
    ("settings", "error", "code"),
    [
        ({"devices": ("GPU-7",)}, NotFound, "no_device"),
        ({"devices": ("0", "7")}, NotFound, "no_device"),
        ({"devices": ("0", "declared-box-0")}, InvalidInput, "invalid_input"),
        ({"gangs": (("0", "1"), ("1",))}, InvalidInput, "invalid_input"),
        ({"gangs": (("0", "2"),)}, InvalidInput, "invalid_input"),
        ({"gangs": (("0", "9"),)}, NotFound, "no_device"),
    ],
)
def test_devices_that_cannot_be_used_are_refused(
    tmp_path: Path, settings: dict[str, object], error: type[VlmHyperBenchError], code: str, wording: Wording
) -> None:
    with pytest.raises(error) as refused:
        shares_of_machine(declared(tmp_path, **settings), name="w")
    assert refused.value.code == code
    wording(str(refused.value))


def test_a_worker_of_declared_devices_lets_its_engine_see_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    show_only([DeviceInfo(no=0, kind="cpu", uuid="cpu", name="x", memory_bytes=1)])
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"
    show_only([DeviceInfo(no=0, kind="gpu", uuid="declared-0", name="x", memory_bytes=1, is_declared=True)])
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def _divided(driver: FakeDriver, **environment: str) -> tuple[list[list[str]], list[dict[str, object]], str | None]:
    """Return the shares of a machine with these GPUs, the devices of a worker there, and what its engine sees."""
    env = {**os.environ, "LD_LIBRARY_PATH": str(driver.folder), **environment}
    done = subprocess.run([sys.executable, "-c", DIVIDE], env=env, capture_output=True, text=True, check=True)
    shares, own, visible = json.loads(done.stdout)
    return shares, own, visible


def test_each_gpu_of_the_driver_gets_a_worker_and_an_engine_sees_its_own_by_uuid(tmp_path: Path) -> None:
    driver = fake_driver(tmp_path, gpus=3)
    first, second, third = driver.gpus
    shares, own, visible = _divided(driver, VLMHB_DEVICES=second)
    assert shares == [[second]]
    assert [(device["uuid"], device["memory_bytes"]) for device in own] == [(second, 80 * GIB - RESERVED)]
    assert visible == second
    assert _divided(driver)[0] == [[first], [second], [third]]
    assert _divided(driver)[2] == ",".join(driver.gpus)
    assert _divided(driver, CUDA_VISIBLE_DEVICES="2,0")[0] == [[third], [first]]
    assert _divided(driver, VLMHB_GANGS="0,2")[0] == [[first, third], [second]]


def test_the_slices_of_a_gpu_in_mig_mode_are_devices(tmp_path: Path) -> None:
    driver = fake_driver(tmp_path, gpus=2, slices_of=[0, 0])
    (_, low), (_, high) = driver.slices
    shares, own, visible = _divided(driver, VLMHB_DEVICES=f"{high}")
    assert _divided(driver, CUDA_VISIBLE_DEVICES=driver.gpus[0])[0] == [[low], [high]]
    assert shares == [[high]]
    assert (own[0]["slice_of"], own[0]["memory_bytes"], visible) == (driver.gpus[0], 10 * 2**30, high)


def test_compute_instances_of_one_gpu_instance_divide_its_memory(tmp_path: Path) -> None:
    driver = fake_driver(tmp_path, slices_of=[0, 0])
    driver.is_one_instance = True
    driver.write()
    _, [own], _ = _divided(driver, VLMHB_DEVICES=driver.slices[0][1])
    assert own["memory_bytes"] == 5 * GIB


def test_numbers_of_gpus_of_different_models_are_refused_unless_they_count_along_the_bus(tmp_path: Path) -> None:
    driver = fake_driver(tmp_path, gpus=2)
    driver.others = {1}
    driver.write()
    assert _divided(driver, CUDA_VISIBLE_DEVICES="1", CUDA_DEVICE_ORDER="PCI_BUS_ID")[0] == [[driver.gpus[1]]]
    assert _divided(driver, CUDA_VISIBLE_DEVICES=driver.gpus[1])[0] == [[driver.gpus[1]]]
    with pytest.raises(subprocess.CalledProcessError) as refused:
        _divided(driver, CUDA_VISIBLE_DEVICES="1")
    assert "InvalidInput" in refused.value.stderr


def test_a_gpu_that_does_not_answer_is_left_out(tmp_path: Path) -> None:
    driver = fake_driver(tmp_path, gpus=2)
    driver.lose(0)
    assert _divided(driver)[0] == [[driver.gpus[1]]]
