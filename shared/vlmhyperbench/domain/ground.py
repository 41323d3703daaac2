"""The ground of an inference (machine, accelerators, cores), and which inferences disturb each other's times. Pure.

Two inferences on one machine do not disturb each other only if they share no GPU, and if both have declared cores and
share none of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The hardware on which the processes of a worker run."""

    machine: str
    """Id of the kernel's boot: containers of a host share it, different hosts do not."""
    gpus: frozenset[str] = frozenset()
    cores: frozenset[int] = frozenset()
    """Hardware threads on which the processes may run, with their siblings; empty if they are not declared."""

    def is_apart_from(self, other: Ground) -> bool:
        """Return whether inferences on the two grounds cannot slow each other down."""
        if self.gpus & other.gpus:
            return False
        if self.machine != other.machine:
            return True
        return bool(self.cores and other.cores) and self.cores.isdisjoint(other.cores)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """The time in which a claim sent requests, from the first request to the last answer, by the monotonic clock."""

    claim_id: str
    ground: Ground
    from_ns: int
    until_ns: int | None
    """None while it still sends."""

    def is_disturbed_by(self, other: Sending) -> bool:
        """Return whether another claim sent requests at the same time, on ground that is not apart."""
        if self.claim_id == other.claim_id or self.ground.is_apart_from(other.ground):
            return False
        return _is_before(other.from_ns, self.until_ns) and _is_before(self.from_ns, other.until_ns)


def parse_cores(text: str) -> frozenset[int]:
    """Parse a list of cores in the kernel's notation, such as `0-3,8`; an empty text is an empty list.

    Raises:
        ValueError: it is not such a list.
    """
    cores: set[int] = set()
    for part in text.split(",") if text else ():
        match = _RANGE.fullmatch(part)
        if match is None or int(match[1]) > int(match[2] or match[1]):
            raise ValueError(f"{part!r} is neither a core nor a range of cores, as in 0-3,8")
        cores.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(cores)


def _is_before(start_ns: int, end_ns: int | None) -> bool:
    return end_ns is None or start_ns < end_ns
