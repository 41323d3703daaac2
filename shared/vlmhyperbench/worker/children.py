"""CPU work in spawned child processes that have no credentials, end when idle, and die with the worker.

All other child processes of a worker (gateway, load generator, doorbell) are started by `processes.start_child`.
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

from vlmhyperbench.domain.timers import Timers
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.processes import child_environment

Params = ParamSpec("Params")
Result = TypeVar("Result")

IDLE_S = 20.0
"""Idle time after which a child is ended, since it holds the memory of the libraries that its work imported."""

STALLED = "stalled"
"""Code of work that exceeded its time limit."""

_PR_SET_PDEATHSIG = 1


def forget_credentials() -> None:
    """Remove all likely credentials from this process's environment, so that no child inherits them.

    A worker calls it once, after it has read its settings.
    """
    allowed = child_environment()
    for name in set(os.environ) - set(allowed):
        del os.environ[name]


class CpuChildren:
    """A pool of spawned processes, each with one call at a time; an idle process is reused, or ended after a while."""

    def __init__(
        self, *, max_running: int | None = None, idle_s: float = IDLE_S, limit_s: float = Timers().compute_s
    ) -> None:
        """Configure the pool.

        Args:
            max_running: maximum number of calls at a time, others wait; None: no maximum.
            idle_s: idle time after which a child is ended.
            limit_s: maximum duration of a call.
        """
        self._free = asyncio.Semaphore(max_running) if max_running is not None else nullcontext()
        self._idle_s = idle_s
        self._limit_s = limit_s
        self._idle: dict[ProcessPoolExecutor, asyncio.TimerHandle] = {}

    async def run(self, function: Callable[Params, Result], *args: Params.args, **kwargs: Params.kwargs) -> Result:
        """Run a module's function in a child and return its result; cancelling the await kills the child.

        Raises:
            Unavailable: the child died, or exceeded the time limit and was killed (code `stalled`).
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
                raise Unavailable(f"The work took longer than {self._limit_s:g} s.", code=STALLED) from error
            self._put_back(child)
            raise
        self._put_back(child)
        return result

    def close(self) -> None:
        """End the idle children; running calls have to be cancelled by their callers."""
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
    """Make the child die with the worker, and ignore Ctrl-C, which the worker handles."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _kill(child: ProcessPoolExecutor) -> None:
    """Kill a child; its manager thread then detects the broken pool and ends, too."""
    for process in list((child._processes or {}).values()):  # noqa: SLF001 - the standard library offers no other way
        process.kill()
    child.shutdown(wait=False, cancel_futures=True)
