"""The measuring process: it sends requests, receives answers and takes the instants.

It imports no heavy package, runs one event loop, and follows its parent's commands: plan, open, go, retune, drain,
cancel, end.
"""

from __future__ import annotations

import gc
import signal
import time
from pathlib import Path

from vlmhyperbench_loadgen.answers import ParsedAnswer
from vlmhyperbench_loadgen.conversations import Conversation, ConversationQueue, make_conversations
from vlmhyperbench_loadgen.eventloop import EventLoop
from vlmhyperbench_loadgen.failures import LoadError
from vlmhyperbench_loadgen.frames import Frame, Inbox, Outbox
from vlmhyperbench_loadgen.openloop import Departures, ScheduledQueue
from vlmhyperbench_loadgen.request_queue import RequestQueue
from vlmhyperbench_loadgen.rows import Row, make_row
from vlmhyperbench_loadgen.streams import Bounds, Stream
from vlmhyperbench_loadgen.table import (
    BODIES,
    Quotation,
    Request,
    RequestKey,
    open_bodies,
    read_quotations,
    read_requests,
    read_schedule,
    read_turns,
    schedule_path,
)
from vlmhyperbench_loadgen.target import Target, open_target
from vlmhyperbench_loadgen.tries import Try
from vlmhyperbench_loadgen.usage import die_with_parent, use_normal_scheduling, use_realtime_scheduling
from vlmhyperbench_sdk.memory import peak_rss_bytes

MAX_ROWS_PER_FRAME, MAX_EVENT_BYTES_PER_FRAME, MAX_FRAME_AGE_S = 128, 32 * 1024, 0.25
"""Rows are sent to the parent as soon as one of these limits is reached. Large frames wake the parent less often, but a
frame of many events takes so long to write that the next request would be sent late."""


class Measurement:
    """One measuring process: its share of the plan, its streams and its pipes."""

    def __init__(self, loop: EventLoop, inbox: Inbox, outbox: Outbox) -> None:
        self._loop = loop
        self._inbox = inbox
        self._outbox = outbox
        self._share, self._of = 0, 1
        self._requests: list[Request] = []
        self._turns: dict[RequestKey, int] = {}
        self._quotations: dict[RequestKey, list[Quotation]] = {}
        self._bodies = memoryview(b"")
        self._target: Target
        """Set by the plan, which is the parent's first command."""
        self._bounds = Bounds(request_timeout_s=0.0, connect_timeout_s=0.0, max_answer_bytes=0)
        self._streams: list[Stream] = []
        self._active_streams: list[Stream] = []
        """Those of the phase, in order of their indexes."""
        self._rows: list[Row] = []
        self._rows_since_ns = self._event_bytes = 0
        self._is_cancelled = False
        self._is_draining = False
        self._seed = 0
        self._folder = Path()
        self._scheduled: ScheduledQueue | None = None
        self._read, self._stamped = 0, 0
        """Number of answers of which bytes were received, and how many of them have the kernel's instants."""

    def serve(self) -> None:
        """Follow commands until one says to end."""
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
                case "retune":
                    pass  # the phase ended while the command was on its way; the parent gives it again in the next
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
        self._turns, self._quotations = read_turns(folder), read_quotations(folder)
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
        """Open the connections and prepare; streams are numbered over all processes, and this one has every `of`-th."""
        for index in range(self._share + len(self._streams) * self._of, streams, self._of):
            self._streams.append(self._make_stream(index))
        active_streams = [stream for stream in self._streams if stream.index < streams]
        for stream in active_streams:
            stream.open()
        while any(stream.state == "opening" for stream in active_streams) and not self._must_stop():
            self._loop.step(waits=True)
        failures = [stream.open_failure for stream in active_streams if stream.open_failure is not None]
        # Reading the schedule of many requests takes some time, so it is read before the parent chooses the start.
        self._scheduled = self._make_scheduled_queue(phase) if is_scheduled else None
        gc.collect()
        gc.freeze()
        gc.disable()
        self._outbox.put(
            {
                "event": "opened",
                "phase": phase,
                "streams": len(active_streams),
                "failed": len(failures),
                "failure": self._target.mask(failures[0]) if failures else None,
            }
        )

    def _make_stream(self, index: int) -> Stream:
        return Stream(index, loop=self._loop, target=self._target, bounds=self._bounds, bodies=self._bodies)

    def _go(self, command: Frame) -> None:
        phase, streams = int(command["phase"]), int(command["streams"])
        active_streams = self._active_streams = [stream for stream in self._streams if stream.index < streams]
        departures: Departures | None = None
        scheduled = self._scheduled
        if scheduled is None:
            queue = self._make_queue(phase, streams, int(command["tries"]))
            queue.wake = lambda now_ns: self._wake_idle_stream(queue, now_ns)
        else:
            queue, scheduled.start_ns = scheduled, int(command["start_ns"])
            departures = Departures(
                scheduled,
                active_streams,
                loop=self._loop,
                grow=lambda: self._grow(active_streams, int(command["max_streams"])),
            )
            for stream in active_streams:
                stream.join(queue)
        self._stamped, self._read = 0, 0
        is_realtime, has_requests = use_realtime_scheduling(), queue.remaining > 0
        self._count_coalesced_streams()
        cpu_ns, started_ns = time.process_time_ns(), time.monotonic_ns()
        if departures is not None:
            self._loop.spin_ns = departures.spin_ns
            departures.start()
        else:
            for stream in active_streams:
                stream.start(queue, started_ns)
        self._drive(queue, active_streams, departures)
        ended_ns = time.monotonic_ns()
        cpu_ns = time.process_time_ns() - cpu_ns
        self._loop.coalesced_streams = self._loop.spin_ns = 0
        if departures is not None:
            departures.stop()
        if is_realtime:
            use_normal_scheduling()
        for stream in active_streams:
            stream.stop(keeps_connection=not self._is_cancelled)
        while queue.has_backlog:
            queue.read_next()
        gc.enable()
        gc.unfreeze()
        self._send_rows(in_flight=0)
        self._outbox.put(
            {
                "event": "closed",
                "phase": phase,
                "remaining": queue.remaining,
                "wall_ns": ended_ns - started_ns if has_requests else 0,
                "cpu_ns": cpu_ns,
                "read": self._read,
                "stamped": self._stamped,
                "grown": departures.grown if departures is not None else 0,
                "resent": queue.resent,
                "reopened": queue.reopened,
                "is_realtime": is_realtime,
                "is_compiled": self._loop.receiver is not None,
            }
        )

    def _drive(self, queue: RequestQueue, streams: list[Stream], departures: Departures | None) -> None:
        """Run the loop until every request is reported or a command says to stop."""
        commands = self._inbox.commands
        if self._is_draining:
            queue.drain()
        while queue.remaining and not (commands and self._must_stop(queue)):
            # Parsing answers and sending rows must not make a request late.
            is_due_soon = departures is not None and departures.are_near() and not queue.is_behind
            waits = is_due_soon or not queue.has_backlog
            had_events = self._loop.step(waits=waits, max_wait_s=MAX_FRAME_AGE_S if self._rows else None)
            if is_due_soon:
                continue
            if queue.has_backlog and (not had_events or queue.is_behind):
                queue.read_next()
            if self._rows and self._are_rows_due():
                self._send_rows(in_flight=sum(stream.is_busy for stream in streams))

    def _belongs_here(self, number: int, stream: int, streams: int) -> bool:
        """Return whether the `number`-th request of a phase is this process's: every stream gets equally many."""
        return (number if stream < 0 else stream) % streams % self._of == self._share

    def _own_requests(self, phase: int, streams: int) -> list[tuple[int, Request]]:
        """Return this process's share of a phase's requests, each with its number in the phase."""
        return [
            (number, request)
            for number, request in enumerate(row for row in self._requests if row.phase == phase)
            if self._belongs_here(number, request.stream, streams)
        ]

    def _make_queue(self, phase: int, streams: int, tries: int) -> RequestQueue:
        if any(number == phase for number, _ in self._turns):
            return ConversationQueue(self._own_conversations(phase, streams), bodies=self._bodies, report=self._report)
        return RequestQueue(
            [request for _, request in self._own_requests(phase, streams)],
            tries=tries,
            seed=f"{self._seed}/{phase}/{self._share}",
            report=self._report,
        )

    def _own_conversations(self, phase: int, streams: int) -> list[Conversation]:
        """Return this process's share of a phase's conversations."""
        requests = [row for row in self._requests if row.phase == phase]
        return [
            conversation
            for number, conversation in enumerate(make_conversations(requests, self._turns, self._quotations))
            if self._belongs_here(number, conversation.stream, streams)
        ]

    def _make_scheduled_queue(self, phase: int) -> ScheduledQueue:
        instants = read_schedule(schedule_path(self._folder, phase))
        # The share does not depend on the open streams: a process without a stream opens one when a request is due.
        own = self._own_requests(phase, self._of)
        return ScheduledQueue(
            [request for _, request in own], [instants[number] for number, _ in own], report=self._report
        )

    def _grow(self, active_streams: list[Stream], max_streams: int) -> Stream | None:
        """Return another stream, numbered as those of `_open`; None at the limit of streams."""
        index = self._share + len(active_streams) * self._of
        if index >= max_streams:
            return None
        if len(active_streams) == len(self._streams):
            self._streams.append(self._make_stream(index))
        stream = self._streams[len(active_streams)]
        active_streams.append(stream)
        return stream

    def _must_stop(self, queue: RequestQueue | None = None) -> bool:
        commands = self._inbox.commands
        if any(command["do"] in ("cancel", "end") for command in commands):
            self._is_cancelled = True
        elif queue is not None and commands and commands[0]["do"] == "drain":
            commands.popleft()
            self._is_draining = True
            queue.drain()
        elif queue is not None and commands and commands[0]["do"] == "retune":
            self._retune(queue, int(commands.popleft()["streams"]))
        return self._is_cancelled

    def _retune(self, queue: RequestQueue, streams: int) -> None:
        """Let the first `streams` streams of all processes take requests; the others end with their present request."""
        queue.streams, now_ns = streams, time.monotonic_ns()
        active_streams = self._active_streams
        while (added := self._grow(active_streams, streams)) is not None:
            added.join(queue)
        for stream in active_streams:
            if stream.index < streams and stream.state == "idle":
                stream.open()  # it takes a request once its connection is open, so that no time counts opening it
                stream.wake(now_ns)
        self._count_coalesced_streams()

    def _count_coalesced_streams(self) -> None:
        self._loop.coalesced_streams = sum(stream.connection.is_stamped for stream in self._active_streams)

    def _wake_idle_stream(self, queue: RequestQueue, now_ns: int) -> None:
        for stream in self._active_streams:
            if stream.state == "idle" and stream.index < queue.streams:
                stream.wake(now_ns)
                return

    def _report(self, done: Try, answer: ParsedAnswer) -> None:
        if not self._rows:
            self._rows_since_ns = time.monotonic_ns()
        if done.response.times:
            self._read += 1
            self._stamped += done.response.is_stamped
        self._rows.append(make_row(done, answer, self._target.mask))
        self._event_bytes += 8 * len(answer.event_ns)

    def _are_rows_due(self) -> bool:
        return (
            len(self._rows) >= MAX_ROWS_PER_FRAME
            or self._event_bytes >= MAX_EVENT_BYTES_PER_FRAME
            or time.monotonic_ns() - self._rows_since_ns >= MAX_FRAME_AGE_S * 1e9
        )

    def _send_rows(self, *, in_flight: int) -> None:
        if self._rows:
            self._outbox.put({"event": "rows", "rows": self._rows, "in_flight": in_flight})
            self._rows = []
            self._event_bytes = 0


def measure(parent: int, *, commands: int, frames: int) -> int:
    """Follow the commands of a parent from one pipe and send it frames by the other; return the exit status."""
    die_with_parent(parent)
    # The parent handles Ctrl-C and SIGTERM to the process group: it commands this process to report what is finished.
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
