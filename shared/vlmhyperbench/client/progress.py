"""Show live progress: bars with rates and ETA on a terminal, plain lines elsewhere, nothing where none is wanted."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from vlmhyperbench.client.live import Live
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.domain.visible import visible
from vlmhyperbench.errors import NotFound
from vlmhyperbench.wire.live import LiveEvent, LiveProgress, LiveRefusal, Progress, Resources, Snapshot, Speeds

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

_LINE_EVERY_S = 5.0
_NEVER = float("inf")
_STATES = frozenset(state.value for state in RunState)
_ENDS = frozenset(state.value for state in RunState if state.is_terminal)


class Display(Protocol):
    """Told what happens to the runs that are followed."""

    def state(self, run_id: UUID, state: str) -> None:
        """A run entered a state."""

    def progress(self, progress: Progress) -> None:
        """A stage of a run came further."""


class Telling:
    """Calls a function with every progress."""

    def __init__(self, tell: Callable[[Progress], None]) -> None:
        self._tell = tell

    def state(self, run_id: UUID, state: str) -> None:
        """Tell nothing."""

    def progress(self, progress: Progress) -> None:
        """Tell where the run is."""
        self._tell(progress)


class Silent:
    """Shows nothing."""

    def state(self, run_id: UUID, state: str) -> None:
        """Show nothing."""

    def progress(self, progress: Progress) -> None:
        """Show nothing."""


class Lines:
    """One line per change of state, and one every few seconds per run and stage."""

    def __init__(self, names: Mapping[UUID, str]) -> None:
        self._names = names
        self._states: dict[UUID, str] = {}
        self._next: dict[tuple[UUID, str], float] = {}

    def state(self, run_id: UUID, state: str) -> None:
        """Print a state that is new."""
        if self._states.get(run_id) != state:
            self._states[run_id] = state
            _note(f"{self._names.get(run_id, run_id)}: {state.lower()}")

    def progress(self, progress: Progress) -> None:
        """Print where the run is, unless it was printed a moment ago."""
        if progress.waits_for is not None:
            _note(f"{self._names.get(progress.run_id, progress.run_id)}: {describe(progress)}")
            return
        key = (progress.run_id, progress.stage)
        is_done = progress.total is not None and progress.done >= progress.total
        due_at = self._next.get(key, 0.0)
        if due_at == _NEVER or (time.monotonic() < due_at and not is_done):
            return
        self._next[key] = _NEVER if is_done else time.monotonic() + _LINE_EVERY_S
        _note(f"{self._names.get(progress.run_id, progress.run_id)}: {describe(progress)}")


class LiveBars:
    """One bar per run, redrawn in place."""

    def __init__(self, bars: Bars, names: Mapping[UUID, str]) -> None:
        self._bars = bars
        self._names = names
        self._tasks: dict[UUID, TaskID] = {}

    def state(self, run_id: UUID, state: str) -> None:
        """Show the state where the stage was."""
        self._bars.update(self._task(run_id), stage=state.lower())
        if state in _ENDS:
            self._bars.update(self._task(run_id), pace="")
            self._bars.stop_task(self._task(run_id))

    def progress(self, progress: Progress) -> None:
        """Move the bar, or say why it stands still."""
        if progress.waits_for is not None:
            self._bars.update(self._task(progress.run_id), pace=visible(describe(progress), keep=""))
            return
        self._bars.update(
            self._task(progress.run_id),
            completed=progress.done,
            total=progress.total,
            stage=progress.stage,
            pace=pace(progress),
        )

    def _task(self, run_id: UUID) -> TaskID:
        """Return the bar of a run (or of an experiment's own report), made when there is something to show."""
        if run_id not in self._tasks:
            name = self._names.get(run_id, str(run_id))
            self._tasks[run_id] = self._bars.add_task(visible(name, keep=""), total=None, stage="queued", pace="")
        return self._tasks[run_id]


def show(message: Live, display: Display) -> None:
    """Tell a display what a message of the live feed says.

    Raises:
        NotFound: the feed knows no such run or experiment.
    """
    match message:
        case Snapshot(kind="run", data={"state": str(state), "waits_for": waits_for}):
            display.state(message.stream, state)
            for progress in message.progress:
                display.progress(progress)
            if isinstance(waits_for, dict) and waits_for["code"] != "scheduler":  # that passes within a second
                why = str(waits_for["message"])
                display.progress(Progress(run_id=message.stream, stage="waiting", done=0, waits_for=why))
        case LiveEvent(event={"type": str(kind)}) if kind.startswith("run.") and kind[4:].upper() in _STATES:
            display.state(message.stream, kind[4:].upper())
        case LiveProgress():
            display.progress(message.progress)
        case LiveRefusal():
            raise NotFound(message.message)


Progressing = bool | Callable[[Progress], None]
"""Whether progress is shown, or who is told."""


@contextmanager
def watching(progress: Progressing, names: Mapping[UUID, str]) -> Iterator[Display]:
    """Choose how progress is shown; `names` is what the runs are called."""
    if callable(progress):
        yield Telling(progress)
    elif not progress:
        yield Silent()
    elif not sys.stderr.isatty():
        yield Lines(names)
    else:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        columns = (
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.fields[stage]}", style="cyan", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[pace]}", markup=False),
            TimeElapsedColumn(),
        )
        with Bars(*columns, console=Console(stderr=True)) as bars:
            yield LiveBars(bars, names)


def _note(text: str) -> None:
    print(visible(text, keep=""), file=sys.stderr, flush=True)


def describe(progress: Progress) -> str:
    """Write one line: stage, done of total, rate and time left; or why nothing happens."""
    if progress.waits_for is not None:
        return f"waiting: {progress.waits_for}"
    of_total = f"/{progress.total}" if progress.total is not None else ""
    share = f" ({progress.done / progress.total:.0%})" if progress.total else ""
    return f"{progress.stage} {progress.done}{of_total}{share} {pace(progress)}".rstrip()


def pace(progress: Progress) -> str:
    """Write rate, time left and failures, as far as they are known."""
    parts = []
    if progress.rate_per_s is not None:
        parts.append(f"{progress.rate_per_s:.1f}/s")
    if progress.eta_s is not None:
        minutes, seconds = divmod(round(progress.eta_s), 60)
        parts.append(f"ETA {minutes}:{seconds:02d}")
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    return " ".join([*parts, *_speeds(progress.speeds), *_resources(progress.resources)])


def _speeds(speeds: Speeds | None) -> list[str]:
    if speeds is None:
        return []
    parts = [f"{speeds.in_flight} in flight"] if speeds.in_flight else []
    if speeds.output_tokens_per_s is not None:
        parts.append(f"{speeds.output_tokens_per_s:.0f} tokens/s")
    for name, p50, p99 in (
        ("TTFT", speeds.ttft_p50_ms, speeds.ttft_p99_ms),
        ("latency", speeds.latency_p50_ms, speeds.latency_p99_ms),
    ):
        if p50 is not None and p99 is not None:
            parts.append(f"{name} {p50:.0f}/{p99:.0f} ms")
    return parts


def _resources(resources: Resources | None) -> list[str]:
    """Write what the engine and the accelerators take; the processors' share says it where nothing else is known."""
    if resources is None:
        return []
    parts = []
    if resources.engine_rss_bytes is not None:
        parts.append(f"engine {resources.engine_rss_bytes / 2**20:,.0f} MiB")
    if resources.accelerator_memory_used_bytes is not None:
        parts.append(f"accelerators {resources.accelerator_memory_used_bytes / 2**20:,.0f} MiB")
    if resources.accelerator_util_percent is not None:
        parts.append(f"{resources.accelerator_util_percent:.0f} %")
    if resources.power_accelerator_w is not None:
        parts.append(f"{resources.power_accelerator_w:.0f} W")
    return [*parts, f"CPU {resources.cpu_util_percent:.0f} %"]
