"""Closed loops by the compiled receiver: it sends the next request as soon as an answer has ended.

It holds the requests of the phase: whoever sends the next takes the first of them. What has ended comes in batches.
"""

from __future__ import annotations

import ctypes
import struct
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from vlmhyperbench_loadgen.answers import find_id, without_id
from vlmhyperbench_loadgen.connection import Reply
from vlmhyperbench_loadgen.receiving import READING_BYTES, Receiver, to_heard
from vlmhyperbench_loadgen.rows import Row, row_alike
from vlmhyperbench_loadgen.table import Request
from vlmhyperbench_loadgen.tries import Try, settle_due
from vlmhyperbench_sdk.stamps import Reading

MOST_BODY_BYTES = 16_384
"""Longer bodies are sent from Python: they seldom leave whole."""

_MOST_ALIKE_BYTES = 4096
_MOST_SEEN = 1024
_EXCHANGE = struct.Struct("@6q")
_ENDED = struct.Struct("@q6q2q")
_ALIKE = struct.Struct("@7q")
"""Structs of `receiving.h` and `relaying.c`."""


class State(NamedTuple):
    """What is under way on a socket."""

    begun: int
    """Requests that the receiver sent since this was asked."""
    place: int
    """Of the request, in the queue; below 0: the socket is free."""
    scheduled_ns: int
    """When it was due; of a free socket, since when it is free."""
    sent_ns: int
    sent: int
    """Its bytes that left; -1: the socket is broken."""
    before: Reading
    """The clocks shortly before it was sent."""


def can_be_relayed(request: Request) -> bool:
    """Say whether a request is one that any stream sends at once, from one piece."""
    return request.stream < 0 and request.think_ns <= 0 and request.body_bytes <= MOST_BODY_BYTES


class Relay:
    """The requests of a phase in the receiver's hands."""

    def __init__(
        self,
        receiver: Receiver,
        requests: Sequence[Request],
        *,
        finish: Callable[[Try], object],
        report: Callable[[list[Row], int], None],
    ) -> None:
        """Lend nothing yet.

        Args:
            receiver: Sends them.
            requests: In order.
            finish: Takes an answer that is still to be read.
            report: Takes the rows of answers that were like one that was read, and how many bear the kernel's instants.
        """
        self._library, self._handle = receiver.library, receiver.handle
        self._requests = requests
        self._finish, self._report = finish, report
        self._head: object = None
        self._rows: list[Row] = []
        """Of the answers that are known, by likeness."""
        self._times_read: Counter[bytes] = Counter()
        """Of answers, by what they are without their id."""

    def begin(self, bodies: Path, head: bytes) -> bool:
        """Lend everything; say whether that could be.

        Args:
            bodies: File with the requests' bodies.
            head: How requests begin, up to the value of Content-Length.
        """
        offsets = array("q", [request.body_offset for request in self._requests])
        lengths = array("q", [request.body_bytes for request in self._requests])
        columns = offsets.buffer_info()[0], lengths.buffer_info()[0], len(offsets)
        path = bytes(bodies)
        failed: int = self._library.receiver_begin_relaying(self._handle, path, head, len(head), *columns)
        return not failed

    def end(self) -> None:
        """Forget the requests."""
        self._library.receiver_end_relaying(self._handle)

    def take(self, stream: int) -> Try | None:
        """Take the next request out of the receiver's hands, as the first try of a stream that sends it at once."""
        place = self._library.receiver_take_next(self._handle)
        if place < 0:
            return None
        return Try(request=self._requests[place], number=1, scheduled_ns=0, stream=stream, place=place)

    def drain(self) -> int:
        """Let nothing more be sent; return how many requests were left."""
        left: int = self._library.receiver_drain(self._handle)
        return left

    def request(self, place: int) -> Request:
        """Return the request of a place in the queue."""
        return self._requests[place]

    def relay(self, fd: int, limit: int, done: Try, before: Reading) -> None:
        """Let the receiver take in the answer to a request that was just sent, and send the next one after it.

        Args:
            fd: The socket, watched for reading.
            limit: An answer may have so many bytes.
            done: What is under way on it.
            before: The clocks shortly before it was sent.
        """
        settle_due(done)
        now = _EXCHANGE.pack(done.place, done.scheduled_ns, done.sent_ns, 0, *before)
        if self._library.receiver_relay(self._handle, fd, limit, done.stream, now):
            raise MemoryError

    def state(self, fd: int) -> State:
        """Say what is under way on a socket."""
        now = ctypes.create_string_buffer(_EXCHANGE.size)
        begun = self._library.receiver_state(self._handle, fd, now)
        place, scheduled_ns, sent_ns, sent, *clocks = _EXCHANGE.unpack(now.raw)
        return State(begun, place, scheduled_ns, sent_ns, sent, Reading(*clocks))

    def know(self, reply: Reply) -> None:
        """Learn how answers begin that may be relayed, from one that ended well."""
        head = reply.head
        if head is self._head or head is None:
            return
        if head.status == 200 and head.framing == "chunked" and head.keeps_alive:
            text = bytes(reply.received[: head.body_start])
            self._library.receiver_set_answer_head(self._handle, text, len(text))
            self._head = head

    def learn(self, reply: Reply, row: Row) -> None:
        """Learn what an answer says, from the second one that says it: more will."""
        if reply.head is not self._head or len(reply.times) != 1 or len(reply.received) > _MOST_ALIKE_BYTES:
            return
        received = bytes(reply.received)
        if len(self._times_read) >= _MOST_SEEN:
            self._times_read.clear()
        key = without_id(received)
        self._times_read[key] += 1
        if self._times_read[key] == 2:
            spans = array("q", chain.from_iterable(find_id(received)))
            where, count = spans.buffer_info()
            slot = self._library.receiver_add_likeness(self._handle, received, len(received), where, count // 2)
            if slot >= 0:
                self._rows[slot : slot + 1] = [row]

    def collect(self) -> None:
        """Take what was relayed in the last wait."""
        if alike := self._log(of_alike=True):
            self._collect_alike(alike)
        self._collect_ended(self._log(of_alike=False))

    def _log(self, *, of_alike: bool) -> bytes:
        length = ctypes.c_uint64()
        start = self._library.receiver_log(self._handle, of_alike, ctypes.byref(length))
        return ctypes.string_at(start, length.value)

    def _collect_alike(self, log: bytes) -> None:
        rows: list[Row] = []
        stamped = 0
        for stream, place, slot, scheduled_ns, sent_ns, end_ns, is_stamped in _ALIKE.iter_unpack(log):
            rows.append(row_alike(self._rows[slot], self._requests[place], stream, scheduled_ns, sent_ns, end_ns))
            stamped += is_stamped
        self._report(rows, stamped)

    def _collect_ended(self, log: bytes) -> None:
        at = 0
        while at < len(log):
            stream, place, scheduled_ns, sent_ns, _, *clocks, count, size = _ENDED.unpack_from(log, at)
            at += _ENDED.size
            start = at + READING_BYTES * count
            reply = Reply(Reading(*clocks))
            reply.add_heard(to_heard(log[start : start + size], log[at:start]))
            done = Try(request=self._requests[place], number=1, scheduled_ns=scheduled_ns, stream=stream, place=place)
            done.sent_ns, done.end_ns, done.reply = sent_ns, reply.times[-1], reply
            self._finish(done)
            at = start + ((size + 7) & ~7)
