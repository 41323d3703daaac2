"""Record what a simulated engine sent, up to a limit; dropped records are counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from vlmhyperbench_simulated.answers import PlannedAnswer

MAX_WRITES = 1_000_000
"""With more writes the oldest records are dropped; `dropped` counts them."""


@dataclass(slots=True)
class SendRecord:
    """The answer that was sent to one request; instants are `time.monotonic_ns()` just before each write.

    The instant of arrival is the kernel's if it stamps the socket.
    """

    number: int
    """Order of arrival, from 0."""
    connection: int
    request_id: str | None
    """Value of the request's header `x-request-id`; None without it."""
    body_sha256: str
    received_ns: int
    answer: PlannedAnswer
    write_ns: list[int] = field(default_factory=list)

    @property
    def late_ns(self) -> list[int]:
        """Lateness of each write against its instant."""
        received_ns = self.received_ns
        return [
            sent_ns - received_ns - write.offset_ns
            for write, sent_ns in zip(self.answer.writes, self.write_ns, strict=False)
        ]

    def to_json(self) -> dict[str, object]:
        """Write one record of `GET /record`; every event has the instant of the write that completed it."""
        writes, write_ns = self.answer.writes, self.write_ns
        events = [
            (sent_ns, kind, count)
            for write, sent_ns in zip(writes, write_ns, strict=False)
            for kind, count in write.events
        ]
        return {
            "number": self.number,
            "connection": self.connection,
            "request_id": self.request_id,
            "body_sha256": self.body_sha256,
            "received_ns": self.received_ns,
            "status": self.answer.status,
            "event_ns": [event[0] for event in events],
            "event_kind": [event[1] for event in events],
            "event_tokens": [event[2] for event in events],
            "late_ns": self.late_ns,
            "end_ns": write_ns[-1] if write_ns and len(write_ns) == len(writes) else None,
            "prompt_tokens": self.answer.prompt_tokens,
            "completion_tokens": self.answer.completion_tokens,
            "text": self.answer.text,
        }


class Records:
    """The records so far, oldest first."""

    def __init__(self, max_writes: int = MAX_WRITES) -> None:
        self._records: deque[SendRecord] = deque()
        self._max_writes = max_writes
        self._writes = 0
        self.dropped = 0

    def add(self, record: SendRecord) -> None:
        """Add a record; drop the oldest records if there are too many writes."""
        self._records.append(record)
        self._writes += len(record.answer.writes)
        while self._writes > self._max_writes and len(self._records) > 1:
            self._writes -= len(self._records.popleft().answer.writes)
            self.dropped += 1

    def clear(self) -> None:
        """Drop all records without counting them."""
        self._records.clear()
        self._writes = self.dropped = 0

    def __iter__(self) -> Iterator[SendRecord]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: int) -> SendRecord:
        return self._records[index]
