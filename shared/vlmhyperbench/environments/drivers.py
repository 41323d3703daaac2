"""Refuse packages that a machine's NVIDIA driver cannot serve, before an engine fails with a message about CUDA.

NVIDIA promises that a program built for CUDA N.x runs with every driver of CUDA N or newer ("CUDA Compatibility",
minor version compatibility), so only the first number is compared.
"""

from __future__ import annotations

from collections.abc import Mapping

from vlmhyperbench.errors import Conflict
from vlmhyperbench_sdk.types import JsonValue

_RUNTIMES = ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu13", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11")
"""Distributions of the CUDA runtime; their versions begin with that of CUDA."""


def check_driver(used: Mapping[str, JsonValue] | None, machine: Mapping[str, JsonValue]) -> None:
    """Accept an environment unless its packages need a newer driver; without a driver nothing uses a GPU.

    That of a rented machine is not known here.

    Args:
        used: The record of an environment (`used.record_prepared`), with its packages.
        machine: The record of the machine, with `driver` and `cuda`.

    Raises:
        Conflict: the driver is too old; code `driver_too_old`.
    """
    packages, cuda = (used or {}).get("packages"), machine.get("cuda")
    if (used or {}).get("kind") == "remote" or not isinstance(packages, Mapping) or not isinstance(cuda, str):
        return
    served = int(cuda.partition(".")[0])
    for name in _RUNTIMES:
        needed = str(packages.get(name, "")).partition(".")[0]
        if needed.isdecimal() and int(needed) > served:
            raise Conflict(
                f"The engine's environment needs CUDA {needed} ({name} {packages[name]}), and this machine's NVIDIA"
                f" driver {machine.get('driver')} serves CUDA {cuda} at most.",
                cure=f"Update the driver, or pin packages that are built for CUDA {served} in the environment.",
                code="driver_too_old",
            )
