"""Count what this process does. Nothing is kept, and nothing imported, until an exporter collects it.

Callers name metrics of the table without the prefix; an unknown name is an error wherever an exporter runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Recorder(Protocol):
    """Keeps the values of this process."""

    def count(self, name: str, amount: float, labels: dict[str, str]) -> None:
        """Add to a counter."""
        ...

    def observe(self, name: str, seconds: float, labels: dict[str, str]) -> None:
        """Add a duration to a histogram."""
        ...

    def set(self, name: str, value: float, labels: dict[str, str]) -> None:
        """Set a gauge."""
        ...


_recorder: Recorder | None = None


def record_to(recorder: Recorder | None) -> None:
    """Send what is counted from now on to a recorder, or nowhere."""
    global _recorder
    _recorder = recorder


def is_recording() -> bool:
    """Return whether anything is kept."""
    return _recorder is not None


def count(name: str, amount: float = 1, /, **labels: str) -> None:
    """Add to a counter."""
    if _recorder is not None:
        _recorder.count(name, amount, labels)


def observe(name: str, seconds: float, /, **labels: str) -> None:
    """Add a duration to a histogram."""
    if _recorder is not None:
        _recorder.observe(name, seconds, labels)


def set_gauge(name: str, value: float, /, **labels: str) -> None:
    """Set a gauge."""
    if _recorder is not None:
        _recorder.set(name, value, labels)


@contextmanager
def counted(name: str, /, *, duration: str | None = None, **labels: str) -> Iterator[None]:
    """Count a block by its result, `ok` or `failed`; `duration` names a histogram of the time that it took."""
    begun, result = time.perf_counter(), "failed"
    try:
        yield
        result = "ok"
    finally:
        count(name, result=result, **labels)
        if duration is not None:
            observe(duration, time.perf_counter() - begun)
