"""Cut server-sent events out of a payload, each with the instant of the read that completed it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vlmhyperbench_loadgen.http1 import Body


def events_of(body: Body, ends: list[int], times: list[int]) -> Iterable[tuple[bytes, int]]:
    """Give each event's data and the instant at which its last data line was complete."""
    if len(times) == 1:
        # Most short answers come in one read.
        at_ns = times[0]
        return [(data, at_ns) for data, _ in _blocks(body.payload)]
    return _timed_events(body, ends, times)


def _timed_events(body: Body, ends: list[int], times: list[int]) -> Iterator[tuple[bytes, int]]:
    starts, shifts = body.starts, body.shifts
    piece, read, last_piece, last_read = 0, 0, len(starts) - 1, len(ends) - 1
    last_place = len(body.payload) - 1
    for data, line_end in _blocks(body.payload):
        # The line feed that ends the line, where it has come.
        place = min(last_place, line_end)
        while piece < last_piece and starts[piece + 1] <= place:
            piece += 1
        place += shifts[piece]
        while read < last_read and ends[read] <= place:
            read += 1
        yield data, times[read]


def _blocks(payload: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield each event's data and where in the payload the last line of it ends."""
    at = 0
    if b"\r" not in payload:
        for block in payload.split(b"\n\n"):
            if block.startswith(b"data:") and b"\n" not in block:
                yield block[5:].strip(), at + len(block)
            elif block:
                yield from _lines(block, at)
            at += len(block) + 2
    else:
        yield from _lines(payload, at)


def _lines(text: bytes, at: int) -> Iterator[tuple[bytes, int]]:
    """Yield as `_blocks` does, line by line, whatever ends the lines."""
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
