"""Peak memory of this process; no single system call returns it correctly on every system."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def peak_rss_bytes() -> int:
    """Return the peak resident memory of this process so far, in bytes.

    On Linux `ru_maxrss` includes the peak of the parent process before the start, which `VmHWM` does not.
    """
    if _STATUS.exists():
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return bytes_of(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, platform=sys.platform)


def bytes_of(maxrss: int, *, platform: str) -> int:
    """Return `ru_maxrss` in bytes: macOS counts it in bytes, others in KiB."""
    return maxrss if platform == "darwin" else maxrss * 1024
