"""The peak memory of a process: its own, in bytes, on every system."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vlmhyperbench_sdk.memory import bytes_of, peak_rss_bytes

MB = 1_000_000


def test_what_was_held_and_given_back_counts() -> None:
    script = (
        "from vlmhyperbench_sdk.memory import peak_rss_bytes\n"
        "before = peak_rss_bytes()\nheld = b'x' * 200_000_000\ndel held\nprint(peak_rss_bytes() - before)"
    )
    grown = int(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout)
    assert 150 * MB < grown < 250 * MB


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux hands a peak on, and says a better one")
def test_a_large_process_does_not_hand_its_peak_on_to_what_it_starts() -> None:
    held = b"x" * (400 * MB)
    script = "from vlmhyperbench_sdk.memory import peak_rss_bytes; print(peak_rss_bytes())"
    reading, writing = os.pipe()
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", script],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1), (os.POSIX_SPAWN_CLOSE, reading)],
    )
    os.close(writing)
    with os.fdopen(reading) as pipe:
        peak_bytes = int(pipe.read())
    os.waitpid(child, 0)
    assert len(held) < peak_rss_bytes()
    assert peak_bytes < 200 * MB


@pytest.mark.parametrize(("platform", "factor"), [("linux", 1024), ("darwin", 1)])
def test_each_system_has_its_unit(platform: str, factor: int) -> None:
    assert bytes_of(5, platform=platform) == 5 * factor
