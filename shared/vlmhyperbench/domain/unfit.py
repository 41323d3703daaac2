"""Say why a job can never fit any known device: what it needs, what there is, and what would help. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench.domain.needs import DEVICES_PARAM, Need, in_gib
from vlmhyperbench.domain.placement import DeviceNow, WorkerNow, could_hold
from vlmhyperbench.domain.steps import STEPS


def why_unfit(need: Need, known: Sequence[WorkerNow]) -> str | None:
    """Return why a job fits no known worker even if that is idle; None if it fits one, or none of its kind is known.

    Args:
        need: what the job needs.
        known: live workers, and those that were seen a short time ago.
    """
    workers = [worker for worker in known if worker.kind == STEPS[need.kind].worker]
    if not workers or any(could_hold(need, worker) for worker in workers):
        return None
    if not need.is_simulated:
        workers = [worker for worker in workers if not _is_declared(worker)]
    if not workers:
        return (
            "Its engine needs hardware, and the devices of all known workers are only declared. Start a worker without "
            "VLMHB_INVENTORY, or run a simulated model."
        )
    widest = max(workers, key=lambda worker: (len(worker.devices), worker.queue))
    if len(widest.devices) < need.devices:
        return (
            f"It needs {need.devices} devices of one worker, and no known worker has more than {len(widest.devices)}. "
            f"Lower {DEVICES_PARAM} in engine_params, or start a worker with {need.devices} devices."
        )
    have = max(
        (_nth_device(worker, need.devices) for worker in workers if len(worker.devices) >= need.devices),
        key=lambda device: device.memory_bytes,
    )
    needed = need.bytes_on(have) or 0
    each = "one device" if need.devices == 1 else f"each of {need.devices} devices of one worker"
    change = f"Change {' or '.join(need.memory.knobs)} in engine_params, choose" if need.memory.knobs else "Choose"
    return (
        f"It needs {in_gib(needed)} of {each} ({need.basis(have)}), and the largest that is known has "
        f"{in_gib(have.memory_bytes)} ({have.name or have.uuid}). {change} a smaller or more quantised model, or start "
        "a worker with a larger device."
    )


def _is_declared(worker: WorkerNow) -> bool:
    return any(device.is_declared and device.is_accelerator for device in worker.devices)


def _nth_device(worker: WorkerNow, count: int) -> DeviceNow:
    """Return the smallest of the largest devices that a job of `count` devices would use."""
    return sorted(worker.devices, key=lambda device: -device.memory_bytes)[max(count, 1) - 1]
