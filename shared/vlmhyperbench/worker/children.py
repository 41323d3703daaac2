"""Children of a worker: CPU work in spawned processes that hold no credentials, end when idle and die with the worker.

Everything else that a worker starts (gateway, load generator, doorbell) goes through `processes.start_child`.
"""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from typing import ParamSpec, TypeVar

from vlmhyperbench.errors import Unavailable
from vlmhyperbench.processes import child_environment
from vlmhyperbench.settings import Timers

Params = ParamSpec("Params")
Result = TypeVar("Result")

IDLE_S = 20.0
"""A child without work for so long is ended: it holds the memory of whatever libraries its work imported."""

STALLED = "stalled"
"""Code of work that does not end by itself."""

_PR_SET_PDEATHSIG = 1


def forget_credentials() -> None:
    """Remove everything that looks like a credential from this process's environment, so that no child inherits it.

    A worker calls it once, after its settings are read.
    """
    kept = child_environment()
    for name in set(os.environ) - set(kept):
        del os.environ[name]


class CpuChildren:
    """Spawned processes, one per call at a time; an idle one is taken again, or ended after a while."""

    def __init__(
        self, *, max_running: int | None = None, idle_s: float = IDLE_S, limit_s: float = Timers().compute_s
    ) -> None:
        """Bound the calls.

        Args:
            max_running: so many run at once, the others wait; None: as many as are asked for.
            idle_s: a child without work for so long is ended.
            limit_s: a call that takes longer is ended.
        """
        self._free = asyncio.Semaphore(max_running) if max_running is not None else nullcontext()
        self._idle_s = idle_s
        self._limit_s = limit_s
        self._idle: dict[ProcessPoolExecutor, asyncio.TimerHandle] = {}

    async def run(self, function: Callable[Params, Result], *args: Params.args, **kwargs: Params.kwargs) -> Result:
        """Run a module's function in a child and return what it returns; cancelling the await kills the child.

        Raises:
            Unavailable: the child died, or did not return within the limit and was killed (code `stalled`).
        """
        async with self._free:
            return await self._run(function, *args, **kwargs)

    async def _run(self, function: Callable[Params, Result], *args: Params.args, **kwargs: Params.kwargs) -> Result:
        child = self._take()
        limit = asyncio.timeout(self._limit_s)
        try:
            async with limit:
                result = await asyncio.wrap_future(child.submit(function, *args, **kwargs))
        except BrokenProcessPool as error:
            _kill(child)
            raise Unavailable("The process that did the work died; it may have run out of memory.") from error
        except asyncio.CancelledError:
            _kill(child)
            raise
        except BaseException as error:
            if limit.expired():
                _kill(child)
                raise Unavailable(f"The work was not done within {self._limit_s:g} s.", code=STALLED) from error
            self._put_back(child)
            raise
        self._put_back(child)
        return result

    def close(self) -> None:
        """End the idle children; calls that still run are cancelled by whoever awaits them."""
        for child, timer in list(self._idle.items()):
            timer.cancel()
            _kill(child)
        self._idle.clear()

    def _take(self) -> ProcessPoolExecutor:
        if self._idle:
            child, timer = self._idle.popitem()
            timer.cancel()
            return child
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(max_workers=1, mp_context=context, initializer=_start, initargs=(os.getpid(),))

    def _put_back(self, child: ProcessPoolExecutor) -> None:
        self._idle[child] = asyncio.get_running_loop().call_later(self._idle_s, self._expire, child)

    def _expire(self, child: ProcessPoolExecutor) -> None:
        del self._idle[child]
        _kill(child)


def _start(parent: int) -> None:
    """Tie the child to the worker: it dies with it, and leaves Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _kill(child: ProcessPoolExecutor) -> None:
    """End a child at once, whatever it does; its manager thread then sees that it is broken and ends too."""
    for process in list((child._processes or {}).values()):  # noqa: SLF001 - the standard library offers no other way
        process.kill()
    child.shutdown(wait=False, cancel_futures=True)
