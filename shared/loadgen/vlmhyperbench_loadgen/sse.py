"""Split a payload into server-sent events, and find the instant at which each was received."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from vlmhyperbench_loadgen.http1 import Body
from vlmhyperbench_sdk.completions import BOM


class Events:
    """The events of a payload: the data of each, and the offset where its last line ends."""

    __slots__ = ("_payload", "next_offset")

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self.next_offset = len(BOM) if payload.startswith(BOM) else 0
        """Offset of the next event. A caller that parses some events itself sets it to the event after them."""

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        payload = self._payload
        if b"\r" in payload:
            start, self.next_offset = self.next_offset, len(payload)
            yield from _lines(payload[start:], start)
        while self.next_offset < len(payload):
            start, end = self.next_offset, payload.find(b"\n\n", self.next_offset)
            end = len(payload) if end < 0 else end
            self.next_offset = end + 2
            block = payload[start:end]
            if block.startswith(b"data:") and b"\n" not in block:
                data = block[5:].strip()
                if data:
                    yield data, end
            elif block:
                yield from _lines(block, start)


def _lines(text: bytes, at: int) -> Iterator[tuple[bytes, int]]:
    """Yield events line by line; lines may end in LF or CRLF."""
    data, line_end = b"", 0
    for line in text.split(b"\n"):
        at += len(line) + 1
        if line.startswith(b"data:"):
            value = line[5:].strip()
            data = data + b"\n" + value if data else value
            line_end = at - 1
        elif data and (not line or line == b"\r"):
            yield data, line_end
            data = b""
    if data:
        yield data, line_end


def instants_of(offsets: Sequence[int], body: Body, ends: list[int], times: list[int]) -> list[int]:
    """Return when the byte at each offset in a payload was received.

    Args:
        offsets: Offsets in the payload, ascending. Shape: (events,).
        body: The payload, and where its bytes were received.
        ends: Number of bytes that were received up to the end of each read. Shape: (reads,).
        times: Instant of each read. Shape: (reads,).
    """
    if len(times) == 1:
        return times * len(offsets)
    starts = list(accumulate((end - first for first, end in body.pieces), initial=0))
    shifts = [first - start for (first, _), start in zip(body.pieces, starts, strict=False)]
    last = len(body.payload) - 1
    if offsets and offsets[-1] > last:
        # The line feed that ends the last line was not received.
        offsets = [*offsets[:-1], last]
    received = [offset + shifts[bisect_right(starts, offset, hi=len(shifts)) - 1] for offset in offsets]
    return [times[bisect_right(ends, offset)] for offset in received]
