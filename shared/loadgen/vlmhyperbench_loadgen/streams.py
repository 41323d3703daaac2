"""One stream: it sends a request and receives the answer; in a closed loop the next request is due at its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from vlmhyperbench_loadgen.clocks import SHARED
from vlmhyperbench_loadgen.connection import Connection, Response
from vlmhyperbench_loadgen.eventloop import WRITE, EventLoop
from vlmhyperbench_loadgen.http1 import Framing, NotHttp
from vlmhyperbench_loadgen.receiving import Received, Receiver
from vlmhyperbench_loadgen.request_queue import RequestQueue
from vlmhyperbench_loadgen.target import Target
from vlmhyperbench_loadgen.tries import Try

STALE_NS = 250_000_000
"""A request on a connection that was already closed fails within a round trip; a later failure is the server's. Where a
server closes a connection because an answer has ended, it does so within this time."""

NO_REQUESTS = RequestQueue((), report=lambda *_: None)
"""The queue of a stream that takes part in no phase."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of one request."""

    request_timeout_s: float
    connect_timeout_s: float
    max_answer_bytes: int


class Stream:
    """A connection and the request in flight on it."""

    def __init__(self, index: int, *, loop: EventLoop, target: Target, bounds: Bounds, bodies: memoryview) -> None:
        self.index = index
        self.connection = Connection(target)
        self.state: Literal["idle", "opening", "busy", "closing", "waiting"] = "idle"
        """`closing`: the server is expected to close the connection."""
        self.deadline_ns = 0
        self.armed_ns = 0
        self.open_failure: str | None = None
        """Why the connection could not be opened before the clock started."""
        self._loop = loop
        self._bounds = bounds
        self._bodies = bodies
        self._target = target
        self._framing: Framing = "length"
        """Of the last answer."""
        self._answered_ns = 0
        """When the last answer ended."""
        self._queue = NO_REQUESTS
        self._try: Try | None = None
        self._receiver: Receiver | None = None
        """The compiled receiver while it reads the answer."""
        self._watched = (-1, 0)

    @property
    def is_busy(self) -> bool:
        """Whether a request is in flight."""
        return self._try is not None

    def open(self) -> None:
        """Begin to open the connection before the clock starts; `state` is idle again when that has ended."""
        self.open_failure = None
        if self.connection.state != "open":
            self._open(time.monotonic_ns())

    def start(self, queue: RequestQueue, now_ns: int) -> None:
        """Take the first request of a phase, due at `now_ns`."""
        self._queue = queue
        self._advance(now_ns, now_ns)

    def join(self, queue: RequestQueue) -> None:
        """Take part in a phase that has begun, without asking for a request."""
        self._queue = queue

    def wake(self, now_ns: int) -> None:
        """Ask for a request again, if there was none."""
        if self.state == "idle":
            self._advance(now_ns, time.monotonic_ns())

    def stop(self, *, keeps_connection: bool) -> None:
        """Give up the request in flight and take no further requests."""
        is_in_flight = self._try is not None or self.state in ("opening", "closing")
        self._queue, self._try = NO_REQUESTS, None
        self.state = "idle"
        self._loop.wake_at(self, 0)
        if is_in_flight or not keeps_connection:
            self._close()

    def _advance(self, free_ns: int, now_ns: int, after: Try | None = None) -> None:
        """Take the next request, due when the stream became free: at the end of `after`, if that is given."""
        self._try = None
        taken = self._queue.take(self.index, now_ns)
        if taken is None:
            self.state = "idle"
            self._loop.wake_at(self, 0)
        elif isinstance(taken, int):
            self._wait(taken)
        else:
            self._try = taken
            if not taken.scheduled_ns:
                taken.scheduled_ns, taken.after = free_ns, after
            if taken.request.think_ns > 0 and taken.number == 1:
                taken.scheduled_ns += taken.request.think_ns
                self._wait(taken.scheduled_ns)
            else:
                self._begin(taken, now_ns)

    def _wait(self, until_ns: int) -> None:
        self.state = "waiting"
        self._loop.wake_at(self, until_ns)

    def _begin(self, current: Try, now_ns: int) -> None:
        if self.connection.state == "open":
            self._send(current)
        else:
            self._open(now_ns)

    def _open(self, now_ns: int) -> None:
        self.state = "opening"
        self._loop.wake_at(self, now_ns + round(self._bounds.connect_timeout_s * 1e9))
        try:
            self.connection.open()
        except OSError as error:
            self._end_opening(f"connect_failed: {error.strerror or error}", time.monotonic_ns())
            return
        self._watch()

    def _go_on_opening(self) -> None:
        self._unwatch()
        try:
            is_open = self.connection.go_on_opening()
        except OSError as error:
            self._end_opening(f"connect_failed: {error.strerror or error}", time.monotonic_ns())
            return
        self._watch()
        if is_open:
            self._loop.wake_at(self, 0)
            if self._try is None:
                self._become_free()
            else:
                self._send(self._try)

    def _end_opening(self, failure: str, now_ns: int) -> None:
        self._close()
        if self._try is None:
            self.open_failure = failure
            self._become_free()
        else:
            self._finish(self._try, now_ns, failure)

    def _become_free(self) -> None:
        """Take the next request, due now: a stream is free once its connection is open."""
        now_ns = time.monotonic_ns()
        self._advance(now_ns, now_ns)

    def _send(self, current: Try) -> None:
        request, body = current.request, current.body
        if body is None:
            body = self._bodies[request.body_offset : request.body_offset + request.body_bytes]
        self.state = "busy"
        current.response.began = SHARED.before(time.monotonic_ns())
        self._loop.requests_sent += 1
        if current.sent_ns is None:
            current.sent_ns = time.monotonic_ns()
        else:
            self._queue.resent += 1
        self._loop.wake_at(self, current.sent_ns + round(self._bounds.request_timeout_s * 1e9))
        try:
            self.connection.send(body)
        except OSError:
            self._receive_refusal(current)
            return
        if self.connection.is_sending:
            self._watch()

    def ready(self, fd: int, mask: int) -> None:
        """The socket is readable or writable."""
        if fd != self.connection.fd:
            return
        current = self._try
        if self.state == "opening":
            self._go_on_opening()
        elif self.state == "busy" and current is not None:
            if mask & ~WRITE:
                self._receive(current)
            if self._try is current and self.connection.is_sending:
                self._go_on_sending(current)
        else:
            self._handle_unexpected()

    def _handle_unexpected(self) -> None:
        """Between requests the server may send only TLS records; other data and errors close the connection."""
        try:
            is_quiet = self.connection.receive() is None
        except OSError:
            is_quiet = False
        if is_quiet:
            return
        self._learn_from_close()
        self._close()
        if self.state == "closing":
            self._reopen()

    def _learn_from_close(self) -> None:
        """Note whether the server has closed the connection because its first answer had ended.

        A connection that was idle for longer, or carried several answers, was closed for another reason.
        """
        answers = self.connection.requests - self.is_busy
        if answers == 1 and time.monotonic_ns() - self._answered_ns < STALE_NS:
            self._target.closes_after.add(self._framing)

    def _reopen(self) -> None:
        """Open a connection in place of one that the server has closed after an answer; then the stream is free."""
        self._queue.reopened += 1
        self._open(time.monotonic_ns())

    def _go_on_sending(self, current: Try) -> None:
        try:
            self.connection.go_on_sending()
        except OSError:
            self._receive_refusal(current)
            return
        self._watch()

    def _receive_refusal(self, current: Try) -> None:
        """Receive the answer of a server that has stopped reading the request: it may state the reason."""
        self.connection.give_up_sending()
        self._watch()
        self._receive(current)

    def _receive(self, current: Try) -> None:
        connection, response = self.connection, current.response
        if self._receiver is not None:
            received = self._stop_receiver(self._receiver)
            if received.data and self._has_ended(current, received.times[-1], response.add_received, received):
                return
        while True:
            try:
                data = connection.receive()
            except OSError:
                self._lose(current)
                return
            now_ns = time.monotonic_ns()
            if data is None:
                self._start_receiver(response)
                return
            if not data:
                if response.end():
                    self._finish(current, now_ns, None)
                else:
                    self._lose(current)
                return
            if self._has_ended(current, now_ns, response.add, data, now_ns, connection.stamp_ns):
                return
            if not connection.has_buffered:
                self._start_receiver(response)
                return

    def _has_ended(self, current: Try, now_ns: int, add: Callable[..., bool], *received: object) -> bool:
        """Add received bytes to the response; return whether the request has ended with them."""
        limit = self._bounds.max_answer_bytes
        try:
            is_whole = add(*received)
        except NotHttp as error:
            self._finish(current, now_ns, f"bad_answer: it is no HTTP answer: {error}")
            return True
        if len(current.response.received) > limit:
            self._finish(current, now_ns, f"answer_too_large: more than {limit} bytes")
            return True
        if is_whole:
            self._finish(current, now_ns, None)
        return is_whole

    def _start_receiver(self, response: Response) -> None:
        """Let the compiled receiver read the rest of a response whose end is an empty line."""
        connection, receiver = self.connection, self._loop.receiver
        if receiver is not None and response.ends_in_empty_line and connection.is_plain and not connection.is_sending:
            max_bytes = self._bounds.max_answer_bytes - len(response.received)
            receiver.start(connection.fd, bytes(response.received[-4:]), max_bytes)
            self._receiver = receiver

    def _stop_receiver(self, receiver: Receiver) -> Received:
        self._receiver = None
        return receiver.stop(self.connection.fd)

    def _time_out(self, current: Try, now_ns: int) -> None:
        """End the request; the part of its answer that was received is recorded."""
        if self._receiver is not None:
            # The answer is parsed again later, and broken frames are reported then.
            with suppress(NotHttp):
                current.response.add_received(self._stop_receiver(self._receiver))
        self._finish(current, now_ns, f"timeout: no end within {self._bounds.request_timeout_s:g} s")

    def _lose(self, current: Try) -> None:
        """End the request of a connection that has closed, or send the request again on a new connection.

        A server may close a connection that is kept alive before it receives the next request. So a request that is
        not the first of its connection is sent again, once. The server may have received it nevertheless, so
        `RequestQueue.resent` counts it.
        """
        now_ns = time.monotonic_ns()
        waited_ns = now_ns - (current.sent_ns or now_ns)
        is_stale = self.connection.requests > 1 and not current.response.received and waited_ns < STALE_NS
        if is_stale:
            self._learn_from_close()
        self._close()
        if is_stale:
            self._open(now_ns)
        else:
            failure = "connection_lost: the server closed the connection before the answer's end"
            self._finish(current, now_ns, failure)

    def due(self, now_ns: int) -> None:
        """The deadline has passed: of opening, of the request, or of a wait."""
        current = self._try
        match self.state:
            case "opening":
                step = "TLS handshake" if self.connection.state == "handshaking" else "connection"
                self._end_opening(f"connect_failed: no {step} within {self._bounds.connect_timeout_s:g} s", now_ns)
            case "busy" if current is not None:
                self._time_out(current, now_ns)
            case "closing":
                self._target.closes_after.discard(self._framing)
                self._become_free()
            case "waiting" if current is not None:
                self._begin(current, now_ns)
            case "waiting":
                self._advance(now_ns, now_ns)

    def _finish(self, done: Try, end_ns: int, failure: str | None) -> None:
        done.end_ns, done.failure = end_ns, failure
        is_usable = failure is None and done.response.leaves_connection_usable and self.connection.is_usable
        if not is_usable:
            self._close()
        elif done.response.head is not None:
            self._framing, self._answered_ns = done.response.head.framing, end_ns
        hold_ns = self._queue.finish(done)
        self._try = None
        if failure is None and hold_ns is None:
            if not is_usable:
                self._reopen()
            elif self.connection.requests == 1 and self._framing in self._target.closes_after:
                self.state = "closing"
                self._loop.wake_at(self, time.monotonic_ns() + STALE_NS)
            else:
                self._advance(end_ns, time.monotonic_ns(), done)
        else:
            # By way of the event loop even without a delay: a server that refuses every connection would cause an
            # endless recursion.
            self._wait(hold_ns or end_ns)

    def _watch(self) -> None:
        wanted = (self.connection.fd, self.connection.wants)
        if wanted == self._watched:
            return
        if wanted[0] == self._watched[0]:
            self._loop.change(*wanted, self)
        else:
            self._loop.watch(*wanted, self)
        self._watched = wanted

    def _unwatch(self) -> None:
        if self._watched[0] >= 0:
            self._loop.unwatch(self._watched[0])
        self._watched = (-1, 0)

    def _close(self) -> None:
        self._receiver = None
        self._unwatch()
        self.connection.close()
