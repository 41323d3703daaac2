"""Decide whether a model fits into free memory, by its adapter's estimate; pure.

An estimate is compared as it is, without a margin: a load is refused only if it cannot fit. A machine without an
accelerator gives an engine its own memory for both parts.
"""

from __future__ import annotations

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.free_memory import FreeMemory
from vlmhyperbench_sdk.protocols import MemoryEstimate


def shortage(estimate: MemoryEstimate, free: FreeMemory) -> str | None:
    """Say which memory is too small, with need and have; None if nothing is known to be."""
    if free.device_bytes is None:
        need = estimate.host_bytes + (estimate.device_bytes if free.devices == 0 else 0)
        return _lack("the machine's memory", need, free.host_bytes)
    where = "the accelerator" if free.devices == 1 else f"the {free.devices} accelerators"
    return _lack(where, estimate.device_bytes, free.device_bytes) or _lack(
        "the machine's memory", estimate.host_bytes, free.host_bytes
    )


def refuse_if_too_large(model: str, estimate: MemoryEstimate | None, free: FreeMemory) -> None:
    """Refuse a load that cannot fit; an unknown estimate refuses nothing.

    Raises:
        InvalidInput: it needs more than is free; code `does_not_fit`.
    """
    is_real = estimate is not None and estimate.source != "declared"
    lack = shortage(estimate, free) if estimate is not None and is_real else None
    if estimate is None or lack is None:
        return
    knobs = f"Change {' or '.join(estimate.knobs)} in engine_params, choose" if estimate.knobs else "Choose"
    raise InvalidInput(
        f"The model {model} does not fit: {lack}.",
        cure=f"{knobs} a smaller or more quantised model, or free memory.",
        code="does_not_fit",
    )


def _lack(where: str, need: int, have: int | None) -> str | None:
    if have is None or need <= have:
        return None
    return f"it needs {need / 2**30:,.1f} GiB of {where}, of which {have / 2**30:,.1f} GiB may be used"
