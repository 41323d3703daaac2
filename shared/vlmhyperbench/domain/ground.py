"""What of a machine an inference stands on, and which inferences disturb each other's times: pure.

Two that share a machine are timed at once only where neither can take anything from the other: no GPU in common, and
cores that both declared and do not share.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where the processes of a worker run."""

    machine: str
    """One boot of one kernel: what containers of a host share, and no two hosts do."""
    gpus: frozenset[str] = frozenset()
    cores: frozenset[int] = frozenset()
    """Threads of the processors that they may run on, with their siblings; empty where nobody declared them."""

    def is_apart_from(self, other: Ground) -> bool:
        """Whether neither can slow the other down."""
        if self.gpus & other.gpus:
            return False
        if self.machine != other.machine:
            return True
        return bool(self.cores and other.cores) and self.cores.isdisjoint(other.cores)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """When a claim sent requests, from the first sent to the last end, by its machine's monotonic clock."""

    claim_id: str
    ground: Ground
    from_ns: int
    until_ns: int | None
    """None while it goes on."""

    def is_disturbed_by(self, other: Sending) -> bool:
        """Whether the other sent meanwhile on ground that is not apart; nobody disturbs itself."""
        if self.claim_id == other.claim_id or self.ground.is_apart_from(other.ground):
            return False
        return _is_before(other.from_ns, self.until_ns) and _is_before(self.from_ns, other.until_ns)


def parse_cores(text: str) -> frozenset[int]:
    """Read a list of cores as the kernel writes it, `0-3,8`; an empty one is no core.

    Raises:
        ValueError: it is not such a list.
    """
    found: set[int] = set()
    for part in text.split(",") if text else ():
        matched = _RANGE.fullmatch(part)
        if matched is None or int(matched[1]) > int(matched[2] or matched[1]):
            raise ValueError(f"{part!r} is no core and no range of cores, as in 0-3,8")
        found.update(range(int(matched[1]), int(matched[2] or matched[1]) + 1))
    return frozenset(found)


def _is_before(start_ns: int, end_ns: int | None) -> bool:
    return end_ns is None or start_ns < end_ns
