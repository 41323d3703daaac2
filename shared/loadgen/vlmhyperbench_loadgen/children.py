"""The parent's side of its measuring processes: start them, send commands, receive frames, end them."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import NoReturn

from vlmhyperbench_loadgen.failures import ChildDied
from vlmhyperbench_loadgen.frames import Frame, FrameReader
from vlmhyperbench_loadgen.measuring import measure

_READ_BYTES = 4 * 1024 * 1024
END_SECONDS, KILL_SECONDS = 3.0, 10.0
_POLL_S = 0.005
"""How often the state of a child that is ending is polled: `waitpid` has no time-out. Nothing is measured meanwhile."""


class MeasuringProcess:
    """One measuring process and the pipe of its frames.

    It is a fork of this process: starting another interpreter would double the time to the first request. The parent
    has no threads, and its only open files are pipes, which the child closes.
    """

    def __init__(self) -> None:
        commands, self._commands = os.pipe()
        self.fd, frames = os.pipe()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _measure(parent, commands, frames)
        os.close(commands)
        os.close(frames)
        os.set_blocking(self.fd, False)
        self._reader = FrameReader()
        self._status: int | None = None
        self.peak_rss_bytes = 0
        self.has_ended = False

    def command(self, do: str, **values: object) -> None:
        """Send one command.

        Raises:
            ChildDied: the process has closed its end of the pipe.
        """
        line = memoryview(json.dumps({"do": do, **values}).encode() + b"\n")
        try:
            while line:
                line = line[os.write(self._commands, line) :]
        except OSError as error:
            raise ChildDied(self._describe_death()) from error

    def receive(self) -> list[Frame]:
        """Read the frames that have arrived.

        Raises:
            ChildDied: the process has ended without an end frame.
        """
        try:
            data = os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return []
        if not data and not self.has_ended:
            raise ChildDied(self._describe_death())
        frames = self._reader.feed(data)
        for frame in frames:
            if frame["event"] == "end":
                self.has_ended = True
                self.peak_rss_bytes = frame["peak_rss_bytes"]
        return frames

    def stop(self) -> None:
        """End the process, by SIGKILL if closing its input does not end it; then `cpu_s` counts its CPU time."""
        os.close(self._commands)
        if self._wait(END_SECONDS) is None:
            os.kill(self.pid, signal.SIGKILL)
            self._wait(KILL_SECONDS)
        os.close(self.fd)

    def _wait(self, seconds: float) -> int | None:
        """Wait for the end of the process; return its exit status as `subprocess` does, None while it still runs."""
        until_s = time.monotonic() + seconds
        while self._status is None and time.monotonic() < until_s:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
            else:
                time.sleep(_POLL_S)
        return self._status

    def _describe_death(self) -> str:
        code = self._wait(END_SECONDS)
        if code is None:
            return f"Measuring process {self.pid} closed its pipe."
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
        return f"Measuring process {self.pid} ended {how} in the middle of its work."


def _measure(parent: int, commands: int, frames: int) -> NoReturn:
    """Run the measuring process, with its two pipes and stderr and no other file of the parent."""
    signal.set_wakeup_fd(-1)
    os.dup2(commands, 0)
    os.dup2(frames, 3)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    os.dup2(2, 1)
    status = 1
    try:
        status = measure(parent, commands=0, frames=3)
    except BaseException:  # noqa: BLE001 -- `os._exit` below ends the process, so nothing else could report it
        sys.excepthook(*sys.exc_info())
    finally:
        # An exception, SystemExit too, must not leave this function: the fork would go on as a second parent.
        os._exit(status)
