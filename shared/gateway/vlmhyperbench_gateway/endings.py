"""Why an engine ended: out of memory, killed, or exited by itself; each has a code of its own."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from vlmhyperbench.errors import OutOfMemory, VlmHyperBenchError
from vlmhyperbench_gateway.errors import EngineFailed, LoadFailed
from vlmhyperbench_gateway.output import EngineOutput
from vlmhyperbench_sdk.gateway import OUTPUT_FOLLOWS

ENGINE_EXITED = "engine_exited"
"""Code of an engine whose process ended while it served, for another reason than memory."""

RECENT_SECONDS = 10.0
"""A process that used much memory may take seconds to end after it was killed."""

Moment = Literal["before it was ready", "while it served"]


def count_memory_kills(proc: Path = Path("/proc")) -> int | None:
    """Return how many processes this machine's kernel has killed because memory ran out; None if it does not say.

    It counts kills of the whole machine and of memory limits of groups alike (`oom_kill` of `vmstat`, Linux 4.13).
    """
    with suppress(OSError, ValueError):
        for line in (proc / "vmstat").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return None


class MemoryKills:
    """How many processes the kernel has killed for memory lately: an older kill says nothing about an engine's end."""

    def __init__(self, count: Callable[[], int | None] = count_memory_kills) -> None:
        self._count = count
        self._older = self._newer = count()

    async def run(self) -> None:
        """Count again and again."""
        while True:
            await asyncio.sleep(RECENT_SECONDS)
            self.forget()

    def forget(self) -> None:
        """Forget what was counted before the last count."""
        self._older, self._newer = self._newer, self._count()

    def lately(self) -> tuple[int | None, int | None]:
        """Return the count some time ago, which is `RECENT_SECONDS` to twice as long, and the count now."""
        return self._older, self._count()


def describe_end(
    status: int, output: EngineOutput, moment: Moment, *, memory_kills: tuple[int | None, int | None] = (None, None)
) -> VlmHyperBenchError:
    """Return the error of an engine that has ended, with the end of its output.

    Args:
        status: exit status of its process; negative for a signal.
        output: its output.
        moment: when it ended.
        memory_kills: `MemoryKills.lately`. A killed engine, just before whose end the kernel killed for memory, counts
            as out of memory, because the victim cannot report it.
    """
    how = f"ended with status {status}" if status >= 0 else f"was killed by {signal.Signals(-status).name}"
    before, now = memory_kills
    is_victim = status == -signal.SIGKILL and before is not None and now is not None and now > before
    why = ", when the kernel killed processes because memory ran out" if is_victim else ""
    message = f"The engine {how} {moment}{why}. {OUTPUT_FOLLOWS}\n{output.tail()}"
    if is_victim or output.says_out_of_memory():
        return OutOfMemory(message)
    return LoadFailed(message) if moment == "before it was ready" else EngineFailed(message, code=ENGINE_EXITED)
