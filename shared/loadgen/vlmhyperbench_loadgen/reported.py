"""What measuring processes report of themselves at the end of the measured phases, added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from vlmhyperbench_loadgen.frames import Frame


class Reported:
    """Sums over the measuring processes and the measured phases, whole or cut short."""

    def __init__(self) -> None:
        self.grown = self.resent = self.reopened = 0
        self.is_realtime = self.is_compiled = False
        self._busy: list[tuple[int, int]] = []
        self._read = self._stamped = 0

    def add(self, closed: Sequence[Frame]) -> None:
        """Add the last frames of the measuring processes in one phase."""
        if not closed:
            return
        self._busy.extend((frame["cpu_ns"], frame["wall_ns"]) for frame in closed)
        self._read += sum(frame["read"] for frame in closed)
        self._stamped += sum(frame["stamped"] for frame in closed)
        self.grown += sum(frame["grown"] for frame in closed)
        self.resent += sum(frame["resent"] for frame in closed)
        self.reopened += sum(frame["reopened"] for frame in closed)
        self.is_realtime = all(frame["is_realtime"] for frame in closed)
        self.is_compiled = all(frame["is_compiled"] for frame in closed)

    @property
    def cpu_s(self) -> float | None:
        """CPU time of all processes; None before a phase has ended."""
        return sum(cpu for cpu, _ in self._busy) / 1e9 if self._busy else None

    @property
    def busy_share(self) -> float | None:
        """CPU time over the phase, of the busiest process; None before a phase has ended."""
        return max((cpu / wall for cpu, wall in self._busy if wall > 0), default=None)

    @property
    def instants(self) -> Literal["kernel", "process", "mixed"]:
        """Source of the instants at which answers were received."""
        if not self._stamped:
            return "process"
        return "kernel" if self._stamped == self._read else "mixed"
