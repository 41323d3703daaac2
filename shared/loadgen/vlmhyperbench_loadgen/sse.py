"""Split a payload into server-sent events, and find the read that brought the end of each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from vlmhyperbench_loadgen.http1 import Body
from vlmhyperbench_sdk.completions import BOM


class Events:
    """The data of a payload's events, each with the place where the last line of it ends."""

    __slots__ = ("_payload", "at")

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self.at = len(BOM) if payload.startswith(BOM) else 0
        """Where the next event begins; a caller that has parsed events by itself moves it on."""

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        payload = self._payload
        if b"\r" in payload:
            start, self.at = self.at, len(payload)
            yield from _lines(payload[start:], start)
        while self.at < len(payload):
            start, end = self.at, payload.find(b"\n\n", self.at)
            end = len(payload) if end < 0 else end
            self.at = end + 2
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


def instants_of(places: Sequence[int], body: Body, ends: list[int], times: list[int]) -> list[int]:
    """Return when each of ascending places in a payload was received; read *i* brought the bytes up to `ends[i]`."""
    starts, shifts, last = body.starts, body.shifts, len(body.payload) - 1
    if places and places[-1] > last:
        # The line feed that ends the last line was not received.
        places = [*places[:-1], last]
    received = [place + shifts[bisect_right(starts, place) - 1] for place in places]
    return [times[bisect_right(ends, place)] for place in received]
