"""Show live progress: bars with rates and ETA on a terminal, plain lines elsewhere, nothing if switched off."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from vlmhyperbench.domain.states import RunState
from vlmhyperbench.domain.visible import visible
from vlmhyperbench.errors import NotFound
from vlmhyperbench.wire.live import Live, LiveEvent, LiveProgress, LiveRefusal, Progress, Resources, Snapshot, Speeds

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

_LINE_EVERY_S = 5.0
_NEVER = float("inf")
_STATES = frozenset(state.value for state in RunState)
_ENDS = frozenset(state.value for state in RunState if state.is_terminal)


class Display(Protocol):
    """Receives state changes and progress of the followed runs."""

    def state(self, run_id: UUID, state: str) -> None:
        """Handle a change of a run's state."""

    def progress(self, progress: Progress) -> None:
        """Handle new progress of a run's stage."""


class Callback:
    """Calls a function with each progress."""

    def __init__(self, function: Callable[[Progress], None]) -> None:
        self._function = function

    def state(self, run_id: UUID, state: str) -> None:
        """Do nothing: the function receives progress only."""

    def progress(self, progress: Progress) -> None:
        """Call the function."""
        self._function(progress)


class Silent:
    """Shows nothing."""

    def state(self, run_id: UUID, state: str) -> None:
        """Show nothing."""

    def progress(self, progress: Progress) -> None:
        """Show nothing."""


class Lines:
    """Prints a line for each change of state, and one every few seconds per run and stage."""

    def __init__(self, names: Mapping[UUID, str]) -> None:
        self._names = names
        self._states: dict[UUID, str] = {}
        self._waits: dict[UUID, str] = {}
        """Run → its last printed wait, without the numbers, which change all the time."""
        self._next: dict[tuple[UUID, str], float] = {}

    def state(self, run_id: UUID, state: str) -> None:
        """Print the state if it has changed."""
        if self._states.get(run_id) != state:
            self._states[run_id] = state
            _note(f"{self._names.get(run_id, run_id)}: {state.lower()}")

    def progress(self, progress: Progress) -> None:
        """Print the progress, unless a line was printed in the last few seconds; print a wait once."""
        if progress.waits_for is not None:
            wait = re.sub(r"\d+", "", progress.waits_for)
            if self._waits.get(progress.run_id) != wait:
                self._waits[progress.run_id] = wait
                _note(f"{self._names.get(progress.run_id, progress.run_id)}: {describe(progress)}")
            return
        self._waits.pop(progress.run_id, None)
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
        """Show the state in place of the stage."""
        self._bars.update(self._task(run_id), stage=state.lower())
        if state in _ENDS:
            self._bars.update(self._task(run_id), pace="")
            self._bars.stop_task(self._task(run_id))

    def progress(self, progress: Progress) -> None:
        """Advance the bar, or show what the run waits for."""
        if progress.waits_for is not None:
            self._bars.update(self._task(progress.run_id), pace=visible(describe(progress), keep=""))
            return
        self._bars.update(
            self._task(progress.run_id),
            completed=progress.done,
            total=progress.total,
            stage=progress.stage,
            amount=amount(progress),
            pace=pace(progress),
        )

    def _task(self, run_id: UUID) -> TaskID:
        """Return the bar of a run (or of an experiment's own report); created when first needed."""
        if run_id not in self._tasks:
            name = self._names.get(run_id, str(run_id))
            self._tasks[run_id] = self._bars.add_task(
                visible(name, keep=""), total=None, stage="queued", amount="", pace=""
            )
        return self._tasks[run_id]


def show(message: Live, display: Display) -> None:
    """Pass a message of the live feed to a display.

    Raises:
        NotFound: the feed knows no such run or experiment.
    """
    match message:
        case Snapshot(kind="run", data={"state": str(state), "waits_for": waits_for}):
            display.state(message.stream, state)
            for progress in message.progress:
                display.progress(progress)
            if isinstance(waits_for, dict) and waits_for["code"] != "scheduler":  # this wait ends within a second
                why = str(waits_for["message"])
                display.progress(Progress(run_id=message.stream, stage="waiting", done=0, waits_for=why))
        case LiveEvent(event={"type": str(kind)}) if kind.startswith("run.") and kind[4:].upper() in _STATES:
            display.state(message.stream, kind[4:].upper())
        case LiveProgress():
            display.progress(message.progress)
        case LiveRefusal():
            raise NotFound(message.message)


Progressing = bool | Callable[[Progress], None]
"""Whether to show progress, or a function that receives it."""


@contextmanager
def watching(progress: Progressing, names: Mapping[UUID, str]) -> Iterator[Display]:
    """Choose the display for progress; `names` maps run ids to names."""
    if callable(progress):
        yield Callback(progress)
    elif not progress:
        yield Silent()
    elif not sys.stderr.isatty():
        yield Lines(names)
    else:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        columns = (
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.fields[stage]}", style="cyan", markup=False),
            BarColumn(),
            TextColumn("{task.fields[amount]}", style="progress.download", markup=False),
            TextColumn("{task.fields[pace]}", markup=False),
            TimeElapsedColumn(),
        )
        with Bars(*columns, console=Console(stderr=True)) as bars:
            yield LiveBars(bars, names)


def _note(text: str) -> None:
    print(visible(text, keep=""), file=sys.stderr, flush=True)


def describe(progress: Progress) -> str:
    """Return one line with stage, done of total, rate and time left; or with what the run waits for."""
    if progress.waits_for is not None:
        return f"waiting: {progress.waits_for}"
    share = f" ({progress.done / progress.total:.0%})" if progress.total else ""
    return f"{progress.stage} {amount(progress)}{share} {pace(progress)}".rstrip()


def amount(progress: Progress) -> str:
    """Return done of total, bytes in a unit that the larger of the two chooses."""
    if progress.unit != "bytes":
        return f"{progress.done}" + (f"/{progress.total}" if progress.total is not None else "")
    unit, size = ("GiB", 2**30) if (progress.total or progress.done) >= 2**30 else ("MiB", 2**20)
    of_total = f"/{progress.total / size:.1f}" if progress.total is not None else ""
    return f"{progress.done / size:.1f}{of_total} {unit}"


def pace(progress: Progress) -> str:
    """Return rate, time left, failures, speeds and resources, as far as they are known."""
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
            parts.append(f"{name} p50/p99 {p50:.0f}/{p99:.0f} ms")
    return parts


def _resources(resources: Resources | None) -> list[str]:
    """Return the resource use of engine, accelerators and CPU, as far as it is known."""
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
