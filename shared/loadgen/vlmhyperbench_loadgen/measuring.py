"""The process that sends, receives and takes the instants.

It imports nothing heavy, runs one event loop, and obeys its parent's commands: plan, open, go, cancel, end.
"""

from __future__ import annotations

import gc
import random
import signal
import time
from pathlib import Path

from vlmhyperbench_loadgen.answers import Answer
from vlmhyperbench_loadgen.conversations import Conversation, ConversationWork, make_conversations
from vlmhyperbench_loadgen.eventloop import EventLoop
from vlmhyperbench_loadgen.failures import LoadError
from vlmhyperbench_loadgen.frames import Frame, Inbox, Outbox
from vlmhyperbench_loadgen.openloop import Departures, ScheduledWork
from vlmhyperbench_loadgen.rows import Row, make_row
from vlmhyperbench_loadgen.streams import Bounds, Stream
from vlmhyperbench_loadgen.table import (
    BODIES,
    Place,
    Request,
    RequestKey,
    open_bodies,
    read_places,
    read_requests,
    read_schedule,
    read_turns,
    schedule_path,
)
from vlmhyperbench_loadgen.target import Target, open_target
from vlmhyperbench_loadgen.tries import Try
from vlmhyperbench_loadgen.usage import die_with_parent, prefer_this_process, treat_like_others
from vlmhyperbench_loadgen.work import Work
from vlmhyperbench_sdk.memory import peak_rss_bytes

ROWS_A_FRAME, EVENT_BYTES_A_FRAME, FRAME_S = 128, 32 * 1024, 0.25
"""Rows go to the parent when so many are there, or so many events with them, or so old: large frames wake it seldom,
but to hand many events on takes longer than a departure can wait."""


class Measurement:
    """One measuring process: its share of the plan, its streams and its pipes."""

    def __init__(self, loop: EventLoop, inbox: Inbox, outbox: Outbox) -> None:
        self._loop = loop
        self._inbox = inbox
        self._outbox = outbox
        self._share, self._of = 0, 1
        self._requests: list[Request] = []
        self._turns: dict[RequestKey, int] = {}
        self._places: dict[RequestKey, list[Place]] = {}
        self._bodies = memoryview(b"")
        self._target: Target | None = None
        self._bounds = Bounds(request_timeout_s=0.0, connect_timeout_s=0.0, max_answer_bytes=0)
        self._streams: list[Stream] = []
        self._rows: list[Row] = []
        self._rows_since_ns = self._event_bytes = 0
        self._is_cancelled = False
        self._is_draining = False
        self._seed = 0
        self._folder = Path()
        self._departures: Departures | None = None
        self._scheduled: ScheduledWork | None = None
        self._read, self._stamped = 0, 0
        """Answers of which something came, and those of them with the kernel's instants."""

    def serve(self) -> None:
        """Obey until told to end."""
        self._outbox.put({"event": "up"})
        while True:
            while not self._inbox.commands:
                self._loop.step(waits=True)
            command = self._inbox.commands.popleft()
            match command["do"]:
                case "plan":
                    self._read_plan(command)
                case "open":
                    self._open(int(command["phase"]), int(command["streams"]), is_scheduled=command["is_scheduled"])
                case "go":
                    self._go(command)
                case "cancel":
                    self._is_cancelled = True
                case "drain":
                    self._is_draining = True
                case _:
                    break
        for stream in self._streams:
            stream.stop(keeps_connection=False)
        self._outbox.put({"event": "end", "peak_rss_bytes": peak_rss_bytes()})
        self._outbox.flush()

    def _read_plan(self, command: Frame) -> None:
        self._share, self._of = command["share"], command["of"]
        folder = self._folder = Path(command["folder"])
        self._requests = read_requests(folder / "requests.npy")
        self._turns, self._places = read_turns(folder), read_places(folder)
        self._bodies = open_bodies(folder / BODIES)
        self._target = open_target(
            command["url"],
            headers=command["headers"],
            unix_socket=command["unix_socket"],
            verify=command["verify"],
        )
        self._bounds = Bounds(**command["bounds"])
        self._seed = command["seed"]
        self._outbox.put({"event": "planned"})

    def _open(self, phase: int, streams: int, *, is_scheduled: bool) -> None:
        """Open the pool and prepare; streams are numbered over all processes, and this one has every `of`-th."""
        assert self._target is not None  # noqa: S101 -- narrows the type
        for index in range(self._share + len(self._streams) * self._of, streams, self._of):
            self._streams.append(self._make_stream(index))
        taking_part = [stream for stream in self._streams if stream.index < streams]
        for stream in taking_part:
            stream.open()
        while any(stream.state == "opening" for stream in taking_part) and not self._must_stop():
            self._loop.step(waits=True)
        failures = [stream.open_failure for stream in taking_part if stream.open_failure is not None]
        # What a schedule needs is there before anybody says when it starts: of many requests it takes a while.
        self._scheduled = self._schedule_work(phase) if is_scheduled else None
        gc.collect()
        gc.freeze()
        gc.disable()
        self._outbox.put(
            {
                "event": "opened",
                "phase": phase,
                "streams": len(taking_part),
                "failed": len(failures),
                "failure": self._target.mask(failures[0]) if failures else None,
            }
        )

    def _make_stream(self, index: int) -> Stream:
        assert self._target is not None  # noqa: S101 -- narrows the type
        return Stream(index, loop=self._loop, target=self._target, bounds=self._bounds, bodies=self._bodies)

    def _go(self, command: Frame) -> None:
        assert self._target is not None  # noqa: S101 -- narrows the type
        phase, streams = int(command["phase"]), int(command["streams"])
        taking_part = [stream for stream in self._streams if stream.index < streams]
        departures: Departures | None = None
        scheduled = self._scheduled
        if scheduled is None:
            work = self._make_work(phase, streams, int(command["tries"]))
            work.wake = lambda now_ns: self._wake_one(taking_part, now_ns)
        else:
            work, scheduled.start_ns = scheduled, int(command["start_ns"])
            departures = Departures(
                scheduled,
                taking_part,
                loop=self._loop,
                grow=lambda: self._grow(taking_part, int(command["most_streams"])),
            )
            self._departures = departures
            for stream in taking_part:
                stream.join(work)
        self._stamped, self._read = 0, 0
        is_realtime, has_work = prefer_this_process(), work.remaining > 0
        self._loop.coalesced_streams = sum(stream.connection.is_stamped for stream in taking_part)
        cpu_ns, started_ns = time.process_time_ns(), time.monotonic_ns()
        if departures is not None:
            self._loop.spin_ns = departures.spin_ns
            departures.start()
        else:
            for stream in taking_part:
                stream.start(work, started_ns)
        self._drive(work, taking_part, departures)
        ended_ns = time.monotonic_ns()
        cpu_ns = time.process_time_ns() - cpu_ns
        self._loop.coalesced_streams = self._loop.spin_ns = 0
        if departures is not None:
            departures.stop()
        if is_realtime:
            treat_like_others()
        for stream in taking_part:
            stream.stop(keeps_connection=not self._is_cancelled)
        while work.has_backlog:
            work.read_one()
        gc.enable()
        gc.unfreeze()
        self._send_rows(in_flight=0)
        self._outbox.put(
            {
                "event": "closed",
                "phase": phase,
                "remaining": work.remaining,
                "wall_ns": ended_ns - started_ns if has_work else 0,
                "cpu_ns": cpu_ns,
                "read": self._read,
                "stamped": self._stamped,
                "grown": departures.grown if departures is not None else 0,
                "resent": work.resent,
                "is_realtime": is_realtime,
                "is_compiled": self._loop.receiver is not None,
            }
        )

    def _drive(self, work: Work, streams: list[Stream], departures: Departures | None) -> None:
        """Let the streams work until every request is reported or somebody asks to stop."""
        commands = self._inbox.commands
        if self._is_draining:
            work.drain()
        while work.remaining and not (commands and self._must_stop(work)):
            # Neither answers nor rows are worth a late departure.
            is_due_soon = departures is not None and departures.are_near() and not work.is_behind
            waits = is_due_soon or not work.has_backlog
            had_events = self._loop.step(waits=waits, max_wait_s=FRAME_S if self._rows else None)
            if is_due_soon:
                continue
            if work.has_backlog and (not had_events or work.is_behind):
                work.read_one()
            if self._rows and self._are_rows_due():
                self._send_rows(in_flight=sum(stream.is_busy for stream in streams))

    def _is_mine(self, number: int, stream: int, streams: int) -> bool:
        """Say whether the `number`-th of a phase is this process's: each stream gets as many, wherever it is."""
        return (number if stream < 0 else stream) % streams % self._of == self._share

    def _mine(self, phase: int, streams: int) -> list[tuple[int, Request]]:
        """This process's share of a phase's requests, with their places in it."""
        return [
            (number, request)
            for number, request in enumerate(row for row in self._requests if row.phase == phase)
            if self._is_mine(number, request.stream, streams)
        ]

    def _make_work(self, phase: int, streams: int, tries: int) -> Work:
        if any(number == phase for number, _ in self._turns):
            return ConversationWork(self._my_conversations(phase, streams), bodies=self._bodies, report=self._report)
        rng = random.Random(f"{self._seed}/{phase}/{self._share}")  # noqa: S311 - drawn, not secret
        return Work([request for _, request in self._mine(phase, streams)], tries=tries, rng=rng, report=self._report)

    def _my_conversations(self, phase: int, streams: int) -> list[Conversation]:
        """This process's share of a phase's conversations."""
        requests = [row for row in self._requests if row.phase == phase]
        return [
            one
            for number, one in enumerate(make_conversations(requests, self._turns, self._places))
            if self._is_mine(number, one.stream, streams)
        ]

    def _schedule_work(self, phase: int) -> ScheduledWork:
        instants = read_schedule(schedule_path(self._folder, phase))
        # Every process has its part: who has no stream yet opens one.
        mine = self._mine(phase, self._of)
        return ScheduledWork(
            [request for _, request in mine], [instants[number] for number, _ in mine], report=self._report
        )

    def _grow(self, taking_part: list[Stream], most: int) -> bool:
        """Open another stream for an open loop, numbered as those of `_open` are."""
        assert self._departures is not None  # noqa: S101 -- narrows the type
        index = self._share + len(taking_part) * self._of
        if index >= most:
            return False
        if len(taking_part) == len(self._streams):
            self._streams.append(self._make_stream(index))
        stream = self._streams[len(taking_part)]
        taking_part.append(stream)
        self._departures.join(stream)
        return True

    def _must_stop(self, work: Work | None = None) -> bool:
        commands = self._inbox.commands
        if any(command["do"] in ("cancel", "end") for command in commands):
            self._is_cancelled = True
        elif work is not None and commands and commands[0]["do"] == "drain":
            commands.popleft()
            self._is_draining = True
            work.drain()
        return self._is_cancelled

    @staticmethod
    def _wake_one(streams: list[Stream], now_ns: int) -> None:
        for stream in streams:
            if stream.state == "idle":
                stream.wake(now_ns)
                return

    def _report(self, done: Try, answer: Answer) -> None:
        assert self._target is not None  # noqa: S101 -- narrows the type
        if not self._rows:
            self._rows_since_ns = time.monotonic_ns()
        if done.reply is not None and done.reply.times:
            self._read += 1
            self._stamped += done.reply.is_stamped
        self._rows.append(make_row(done, answer, self._target.mask))
        self._event_bytes += 8 * len(answer.event_ns)

    def _are_rows_due(self) -> bool:
        return (
            len(self._rows) >= ROWS_A_FRAME
            or self._event_bytes >= EVENT_BYTES_A_FRAME
            or time.monotonic_ns() - self._rows_since_ns >= FRAME_S * 1e9
        )

    def _send_rows(self, *, in_flight: int) -> None:
        if self._rows:
            self._outbox.put({"event": "rows", "rows": self._rows, "in_flight": in_flight})
            self._rows = []
            self._event_bytes = 0


def measure(parent: int, *, commands: int, frames: int) -> int:
    """Measure for a parent, which commands by one pipe and takes frames by the other; return the exit status."""
    die_with_parent(parent)
    # Ctrl-C and a group's SIGTERM are the parent's to answer: it lets this process finish what is done.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    loop = EventLoop()
    outbox = Outbox(loop, frames)
    try:
        Measurement(loop, Inbox(loop, commands), outbox).serve()
    except LoadError as error:
        outbox.put({"event": "failed", "error": str(error)})
        outbox.flush()
        return 1
    except BrokenPipeError:
        return 1
    return 0
