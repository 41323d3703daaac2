"""The parent's side of its measuring processes: start them, command them, hear them, end them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress

from vlmhyperbench_loadgen.failures import ChildDied
from vlmhyperbench_loadgen.frames import Frame, FrameReader

_READ_BYTES = 4 * 1024 * 1024
END_SECONDS = 3.0


class MeasuringProcess:
    """One measuring process and the pipe that its frames come by."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "vlmhyperbench_loadgen.measuring", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None  # noqa: S101 -- narrows the type
        self.fd = self._process.stdout.fileno()
        os.set_blocking(self.fd, False)
        self._reader = FrameReader()
        self.pid = self._process.pid
        self.peak_rss_bytes = 0
        self.has_ended = False

    def command(self, do: str, **values: object) -> None:
        """Send one command.

        Raises:
            ChildDied: nobody reads it any more.
        """
        assert self._process.stdin is not None  # noqa: S101 -- narrows the type
        try:
            self._process.stdin.write(json.dumps({"do": do, **values}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ChildDied(self._describe_death()) from error

    def hear(self) -> list[Frame]:
        """Read what has come.

        Raises:
            ChildDied: it has ended without having said so.
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
        """End it, by SIGKILL if it does not end when its input does; afterwards its CPU time is counted."""
        with suppress(OSError):
            assert self._process.stdin is not None  # noqa: S101 -- narrows the type
            self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None  # noqa: S101 -- narrows the type
        self._process.stdout.close()

    def _describe_death(self) -> str:
        try:
            code = self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            return f"Measuring process {self.pid} closed its pipe."
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
        return f"Measuring process {self.pid} ended {how} in the middle of its work."
