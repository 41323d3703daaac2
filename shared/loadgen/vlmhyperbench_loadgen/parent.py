"""The load generator's parent process: checks the plan, commands the measuring processes, seals their rows."""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vlmhyperbench_loadgen.children import MeasuringProcess
from vlmhyperbench_loadgen.failures import ChildDied, LoadError, PlanError
from vlmhyperbench_loadgen.frames import Frame
from vlmhyperbench_loadgen.orders import OrderReader
from vlmhyperbench_loadgen.plan import CheckedPlan, Transport, is_open_loop, read_plan, transport_of
from vlmhyperbench_loadgen.receiving import load_library
from vlmhyperbench_loadgen.reported import Reported
from vlmhyperbench_loadgen.rows import COLUMNS, Row
from vlmhyperbench_loadgen.segments import Recorder
from vlmhyperbench_loadgen.usage import allow_files, allowed_streams, check_files, cpu_s, process_age_s
from vlmhyperbench_sdk.load import (
    RETUNABLE,
    SEGMENT_ROWS,
    SEGMENT_SECONDS,
    EndLine,
    LoadOutcome,
    PhaseLine,
    PhasePlan,
    PhaseState,
    ProgressLine,
    StartedLine,
)
from vlmhyperbench_sdk.memory import peak_rss_bytes

PROGRESS_S = 0.5
SEALING_NICENESS = 5
STALL_SECONDS = 2.0
"""A measuring process that sends nothing for this long after the command to end is killed."""

COMMON_START_NS = 50_000_000
"""All processes of an open loop start at the same instant, this long after the command."""

_STATUS = COLUMNS.index("status")


class Cancelled(Exception):
    """A line on stdin or a signal asks for the end."""


class Parent:
    """One run of the load generator, from `started` to `end`."""

    def __init__(self, plan_folder: Path, record_folder: Path, emit: Callable[[object], None]) -> None:
        self._plan_folder = plan_folder
        self._record_folder = record_folder
        self._emit = emit
        self._recorder = Recorder(record_folder)
        self._selector = selectors.DefaultSelector()
        self._children: list[MeasuringProcess] = []
        self._lines: deque[dict[str, Any]] = deque()
        self._orders = OrderReader()
        self._wanted_in_flight: int | None = None
        self._is_retunable = False
        self._is_cancelled = False
        self._is_draining = False
        self._received: dict[str, list[Frame]] = {}
        self._rows: list[Row] = []
        self._rows_since_s = 0.0
        self._phase = 0
        self._done = 0
        self._failed = 0
        self._in_flight: dict[int, int] = {}
        self._emitted_at_s = 0.0
        self._is_measured = False
        self._reported = Reported()
        self._transport: Transport = "tcp"
        self._startup_s = 0.0
        self._ready_ns = 0
        self._age_s = process_age_s()

    def run(self) -> int:
        """Drive the whole plan; return the exit status."""
        self._emit(
            StartedLine(event="started", pid=os.getpid(), monotonic_ns=time.monotonic_ns(), wall_ns=time.time_ns())
        )
        outcome: LoadOutcome = "complete"
        error, schedule = None, ""
        try:
            self._listen()
            load_library()
            self._start_child()
            secrets = self._await_ready()
            checked = read_plan(self._plan_folder)
            schedule = checked.schedule_sha256
            self._prepare(checked, secrets)
            for phase in checked.plan.phases:
                self._drive(checked, phase)
        except Cancelled:
            outcome = "cancelled"
        except (LoadError, OSError) as failure:
            outcome, error = "failed", str(failure)
        processes = len(self._children)
        try:
            self._end_children(cancel=outcome != "complete")
            self._add_closed(self._received.pop("closed", []))
            self._seal()
        except (LoadError, OSError) as failure:
            outcome, error = "failed", error or str(failure)
        self._emit_end(outcome, error, schedule, processes)
        return 1 if outcome == "failed" else 0

    def _listen(self) -> None:
        allow_files()
        self._record_folder.mkdir(parents=True, exist_ok=True)
        if any(self._record_folder.glob("*.parquet")):
            raise PlanError(
                f"The folder {self._record_folder.name} already holds the segments of a run: name another folder."
            )
        reading, writing = os.pipe()
        for fd in (0, reading, writing):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        self._selector.register(reading, selectors.EVENT_READ, self._handle_signal)
        try:
            self._selector.register(0, selectors.EVENT_READ, self._handle_input)
        except PermissionError as error:
            raise PlanError("stdin must be a pipe, a terminal or a socket: the ready line is read from it.") from error

    def _start_child(self) -> None:
        child = MeasuringProcess()
        self._children.append(child)
        self._selector.register(child.fd, selectors.EVENT_READ, lambda _fd: self._handle_frames(child))

    def _await_ready(self) -> Mapping[str, str]:
        while not self._lines:
            self._step(PROGRESS_S)
        line = self._lines.popleft()
        secrets = line.get("secrets", {})
        if line.get("event") != "ready" or not isinstance(secrets, dict):
            raise PlanError('The first line on stdin must be a ready line, {"event": "ready"}.')
        self._ready_ns = time.monotonic_ns()
        return secrets

    def _prepare(self, checked: CheckedPlan, secrets: Mapping[str, str]) -> None:
        plan = checked.plan
        self._transport = transport_of(plan.endpoint)
        headers: dict[str, str] = {}
        for header, name in plan.endpoint.headers.items():
            value = secrets.get(name)
            if not isinstance(value, str):
                raise PlanError(f"The ready line has no secret {name!r}, which is the value of the header {header!r}.")
            headers[header] = value
        wanted = min(plan.processes, max(checked.max_streams_of(phase) for phase in plan.phases))
        check_files(-(-max(checked.max_streams_of(phase) for phase in plan.phases) // wanted))
        while len(self._children) < wanted:
            self._start_child()
        for share, child in enumerate(self._children):
            child.command(
                "plan",
                share=share,
                of=wanted,
                folder=str(self._plan_folder),
                url=plan.endpoint.url,
                headers=headers,
                unix_socket=plan.endpoint.unix_socket,
                verify=plan.endpoint.verify,
                seed=plan.seed,
                bounds={
                    "request_timeout_s": plan.limits.request_timeout_s,
                    "connect_timeout_s": plan.limits.connect_timeout_s,
                    "max_answer_bytes": plan.limits.max_answer_bytes,
                },
            )
        self._await("planned")
        # On a busy machine measuring has priority over sealing.
        os.nice(SEALING_NICENESS)

    def _drive(self, checked: CheckedPlan, phase: PhasePlan) -> None:
        """Drive one phase: open the connections, start all clocks, receive rows until every request is reported."""
        if self._is_draining:
            raise Cancelled
        count, streams = checked.requests.get(phase.no, 0), checked.streams_of(phase)
        for child in self._children:
            child.command("open", phase=phase.no, streams=streams, is_scheduled=is_open_loop(phase))
        opened = self._await("opened")
        failures = [str(frame["failure"]) for frame in opened if frame["failure"] is not None]
        if failures and sum(frame["failed"] for frame in opened) == sum(frame["streams"] for frame in opened):
            raise LoadError(failures[0])
        self._phase, self._done, self._failed, self._in_flight = phase.no, 0, 0, {}
        self._is_measured = phase.kind not in ("warmup", "baseline")
        self._emit_phase(phase, count, "OPEN")
        if self._startup_s == 0.0:
            self._startup_s = self._age_s + (time.monotonic_ns() - self._ready_ns) / 1e9
        start_ns = time.monotonic_ns() + COMMON_START_NS if is_open_loop(phase) else None
        for child in self._children:
            child.command(
                "go",
                phase=phase.no,
                streams=streams,
                tries=checked.tries_of(phase),
                start_ns=start_ns,
                max_streams=checked.max_streams_of(phase),
            )
        self._is_retunable = phase.kind in RETUNABLE and not is_open_loop(phase)
        self._retune()
        closed = self._await("closed")
        self._is_retunable = False
        self._add_closed(closed)
        if self._is_draining and self._done != count:
            raise Cancelled
        if self._done != count:
            raise LoadError(f"Phase {phase.no} has {count} requests, but {self._done} were reported.")
        self._seal()
        self._emit_progress()
        self._emit_phase(phase, count, "COMPLETE")

    def _add_closed(self, closed: list[Frame]) -> None:
        """Add what measuring processes report of themselves at the end of a phase, whole or cut short."""
        if self._is_measured:
            self._reported.add(closed)

    def _await(self, event: str) -> list[Frame]:
        """Receive until every measuring process has sent this event."""
        while len(self._received.get(event, [])) < len(self._children):
            self._step(PROGRESS_S)
        return self._received.pop(event)

    def _step(self, max_wait_s: float) -> None:
        """Handle what arrives within `max_wait_s`, then seal and report what is due.

        Raises:
            Cancelled: a line or a signal asked for the end.
            ChildDied: a measuring process has died.
        """
        now_s = time.monotonic()
        if self._rows:
            max_wait_s = min(max_wait_s, max(0.0, self._rows_since_s + SEGMENT_SECONDS - now_s))
        for key, _ in self._selector.select(max_wait_s):
            key.data(key.fd)
        now_s = time.monotonic()
        if self._rows and now_s - self._rows_since_s >= SEGMENT_SECONDS:
            self._seal()
        if self._done and now_s - self._emitted_at_s >= PROGRESS_S:
            self._emit_progress()
        if self._is_cancelled:
            raise Cancelled

    def _handle_signal(self, fd: int) -> None:
        os.read(fd, 64)
        self._is_cancelled = True

    def _handle_input(self, fd: int) -> None:
        data = os.read(fd, 1024 * 1024)
        if not data:
            self._selector.unregister(fd)
            if self._ready_ns == 0 and not self._lines:
                raise PlanError("stdin ended before the ready line.")
            return
        for order in self._orders.feed(data):
            match order.get("event"):
                case "cancel":
                    self._is_cancelled = True
                case "drain":
                    self._is_draining = True
                    for child in self._children:
                        child.command("drain")
                case "retune":
                    self._wanted_in_flight = order["in_flight"]
                    self._retune()
                case _:
                    self._lines.append(order)

    def _retune(self) -> None:
        """Tell the measuring processes how many streams take requests, while they drive a phase that allows it."""
        if self._is_retunable and self._wanted_in_flight is not None:
            processes = len(self._children)
            streams = max(processes, min(self._wanted_in_flight, processes * allowed_streams()))
            for child in self._children:
                child.command("retune", streams=streams)

    def _handle_frames(self, child: MeasuringProcess) -> None:
        for frame in child.receive():
            match frame["event"]:
                case "rows":
                    self._in_flight[child.pid] = frame["in_flight"]
                    self._add_rows(frame["rows"])
                case "failed":
                    raise ChildDied(frame["error"])
                case event:
                    self._received.setdefault(event, []).append(frame)
        if child.has_ended:
            self._selector.unregister(child.fd)

    def _add_rows(self, rows: list[Row]) -> None:
        for row in rows:
            if not self._rows:
                self._rows_since_s = time.monotonic()
            self._rows.append(row)
            self._done += 1
            self._failed += row[_STATUS] != "ok"
            if len(self._rows) == SEGMENT_ROWS:
                self._seal()

    def _seal(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            self._emit(self._recorder.seal(self._phase, rows))

    def _end_children(self, *, cancel: bool) -> None:
        """End the measuring processes, after receiving the rows that they have finished."""
        try:
            self._receive_rest(cancel=cancel)
        finally:
            for child in self._children:
                child.stop()

    def _receive_rest(self, *, cancel: bool) -> None:
        waiting = []
        for child in self._children:
            try:
                if cancel:
                    child.command("cancel")
                child.command("end")
            except ChildDied:
                continue
            waiting.append(child)
        received_s = time.monotonic()
        while waiting and time.monotonic() < received_s + STALL_SECONDS:
            for key, _ in self._selector.select(0.1):
                received_s = time.monotonic()
                if key.fd == 0:
                    self._selector.unregister(0)
                    continue
                try:
                    key.data(key.fd)
                except ChildDied:
                    self._selector.unregister(key.fd)
                    waiting = [child for child in waiting if child.fd != key.fd]
            waiting = [child for child in waiting if not child.has_ended]

    def _emit_phase(self, phase: PhasePlan, count: int, state: PhaseState) -> None:
        self._emit(
            PhaseLine(
                event="phase",
                phase=phase.no,
                kind=phase.kind,
                params=phase.params,
                count=count,
                state=state,
            )
        )

    def _emit_progress(self) -> None:
        self._emitted_at_s = time.monotonic()
        self._emit(
            ProgressLine(
                event="progress",
                phase=self._phase,
                done=self._done,
                failed=self._failed,
                in_flight=sum(self._in_flight.values()),
            )
        )

    def _emit_end(self, outcome: LoadOutcome, error: str | None, schedule: str, processes: int) -> None:
        reported = self._reported
        self._emit(
            EndLine(
                event="end",
                outcome=outcome,
                error=error,
                cpu_s=cpu_s(),
                peak_rss_bytes=peak_rss_bytes() + sum(child.peak_rss_bytes for child in self._children),
                startup_s=self._startup_s,
                processes=processes,
                measuring_cpu_s=reported.cpu_s,
                measuring_peak_rss_bytes=max((child.peak_rss_bytes for child in self._children), default=None),
                loop_busy_share=reported.busy_share,
                schedule_sha256=schedule,
                transport=self._transport,
                instants=reported.instants,
                idle_opened=reported.grown,
                resent=reported.resent,
                reopened=reported.reopened,
                is_realtime=reported.is_realtime,
                receiver="compiled" if reported.is_compiled else "interpreted",
            )
        )
