"""The shares of a machine: which devices and cores each of its inference workers gets."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vlmhyperbench.domain.ground import parse_cores
from vlmhyperbench.domain.shares import divide_cores
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.device_locks import check_free
from vlmhyperbench.worker.devices import DeviceInfo, check_together, choose, devices_of_machine
from vlmhyperbench.worker.ground import affinity, siblings

_LOG = logging.getLogger(__name__)
_NODES = Path("/sys/devices/system/node")


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one inference worker of a machine uses."""

    name: str
    """Name of the worker."""
    devices: tuple[DeviceInfo, ...]
    cores: frozenset[int] = frozenset()
    """Empty: the cores of the process that starts the worker, because the machine has fewer cores than workers."""

    @property
    def variables(self) -> dict[str, str]:
        """The settings by which the worker is told its share."""
        told = {"VLMHB_WORKER_NAME": self.name, "VLMHB_DEVICES": ",".join(device.uuid for device in self.devices)}
        return told | ({"VLMHB_INFERENCE_CORES": ",".join(map(str, sorted(self.cores)))} if self.cores else {})


def shares_of_machine(settings: Settings, *, name: str) -> list[Share]:
    """Divide this machine among inference workers: one for each gang and each other device, with cores of its own.

    One worker keeps the name; several have their number added to it.

    Raises:
        NotFound: the settings name a device that the machine does not have.
        InvalidInput: a device is in two gangs, or a gang has a MIG slice or a CPU slot.
        RegistryErrors: the declared inventory is not valid.
    """
    present = devices_of_machine(settings)
    if settings.devices:
        present = choose(present, settings.devices, setting="VLMHB_DEVICES")
    groups = _groups(present, settings.gangs)
    if len(groups) == 1:
        return [Share(name=name, devices=groups[0], cores=settings.inference_cores)]
    allowed = settings.inference_cores or affinity(0)
    cores = {siblings(core) & allowed for core in allowed}
    divided = divide_cores(sorted(cores, key=min), _nodes(), [group[0].numa_node for group in groups])
    if divided is None:
        _LOG.warning("%d cores are too few for %d workers: they measure one after another.", len(cores), len(groups))
    pieces = divided or [settings.inference_cores] * len(groups)
    return [
        Share(name=f"{name}-{number}", devices=group, cores=piece)
        for number, (group, piece) in enumerate(zip(groups, pieces, strict=True))
    ]


def free_shares(settings: Settings, *, name: str) -> list[Share]:
    """Return the shares of this machine, once it is known that no other worker holds one of their devices.

    Raises:
        Conflict: another worker holds a device (code `device_in_use`); the message names it.
        VlmHyperBenchError: see `shares_of_machine`.
    """
    shares = shares_of_machine(settings, name=name)
    for share in shares:
        check_free(settings.home, share.name, share.devices)
    return shares


def _groups(present: Sequence[DeviceInfo], gangs: Sequence[Sequence[str]]) -> list[tuple[DeviceInfo, ...]]:
    grouped: list[tuple[DeviceInfo, ...]] = []
    taken: set[str] = set()
    for names in gangs:
        gang = tuple(choose(present, names, setting="VLMHB_GANGS"))
        again = next((device for device in gang if device.uuid in taken), None)
        if again is not None:
            raise InvalidInput(f"VLMHB_GANGS has the device {again.uuid} in two gangs.", cure="Name it in one.")
        check_together(gang, setting="VLMHB_GANGS")
        taken |= {device.uuid for device in gang}
        grouped.append(gang)
    grouped += [(device,) for device in present if device.uuid not in taken]
    return sorted(grouped, key=lambda group: group[0].no)


def _nodes() -> dict[int, int]:
    """Return the NUMA node of each hardware thread, as far as the kernel says it."""
    found: dict[int, int] = {}
    for folder in _NODES.glob("node[0-9]*"):
        try:
            cores = parse_cores((folder / "cpulist").read_text(encoding="ascii").strip())
        except (OSError, ValueError):
            continue
        found |= dict.fromkeys(cores, int(folder.name.removeprefix("node")))
    return found
