"""Run a command whose stderr is a terminal or a pipe, and return every byte that it writes there."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Collection, Mapping

READ_BYTES = 65_536


def stderr_of(
    *arguments: str, on_terminal: bool = False, env: Mapping[str, str] | None = None, statuses: Collection[int] = (0,)
) -> str:
    """Run `vlmhyperbench` and return its stderr; it must end with one of the statuses."""
    argv = [sys.executable, "-m", "vlmhyperbench.cli.main", *arguments]
    reading, writing = os.openpty() if on_terminal else os.pipe()
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=writing, env=env) as running:
        os.close(writing)
        stderr = b""
        try:
            while part := os.read(reading, READ_BYTES):
                stderr += part
        except OSError as error:
            # A terminal raises this error when its last writer has closed it.
            if error.errno != errno.EIO:
                raise
        finally:
            os.close(reading)
        assert running.wait(timeout=120) in statuses, stderr
    return stderr.decode()
