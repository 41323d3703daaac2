"""Parse HTTP/1.1 responses: the head, where the body ends, and the body without its chunk frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

MAX_HEAD_BYTES = 64 * 1024
_MAX_CHUNK_LINE_BYTES = 1024

_SIZES: dict[bytes, int] = {}
"""Cached sizes by size line: few different lines occur in a stream."""

_MAX_SIZES = 4096
_HEADS: dict[bytes, Head] = {}
"""Cached heads by their bytes: the responses of a server mostly have the same head."""

_MAX_HEADS = 64

Framing = Literal["length", "chunked", "close"]


class NotHttp(Exception):
    """The received bytes are not an HTTP/1.1 response; the text states the reason."""


@dataclass(frozen=True, slots=True)
class Head:
    """Status line and headers of a final (not 1xx) response."""

    status: int
    headers: dict[bytes, bytes]
    """By lower-case name; the last value of a repeated header."""
    body_start: int
    framing: Framing
    content_length: int
    """0 unless the framing is `length`."""
    keeps_alive: bool


@dataclass(frozen=True, slots=True)
class Body:
    """A body's payload, and where its bytes are in the received bytes."""

    payload: bytes
    pieces: Sequence[tuple[int, int]]
    """Offsets of each piece of the payload in the received bytes: of its first byte, and after its last byte."""


def read_head(received: bytearray) -> Head | None:
    """Parse the head, skipping interim (1xx) responses; None while it is incomplete.

    Raises:
        NotHttp: the bytes are not the beginning of a valid head.
    """
    start = 0
    while True:
        end = received.find(b"\r\n\r\n", start)
        if end < 0:
            if len(received) - start > MAX_HEAD_BYTES:
                raise NotHttp("the head is longer than 64 KiB")
            if not received[start : start + 5] == b"HTTP/"[: len(received) - start]:
                raise NotHttp(f"it begins with {bytes(received[start : start + 20])!r}")
            return None
        text = bytes(received[start:end])
        if start == 0 and text in _HEADS:
            return _HEADS[text]
        lines = text.split(b"\r\n")
        status = _read_status(lines[0])
        if status >= 200:
            head = _make_head(lines, status, end + 4)
            if start == 0:
                if len(_HEADS) >= _MAX_HEADS:
                    _HEADS.clear()
                _HEADS[text] = head
            return head
        start = end + 4


def _read_status(line: bytes) -> int:
    version, _, rest = line.partition(b" ")
    code = rest[:3]
    if version not in (b"HTTP/1.1", b"HTTP/1.0") or len(code) != 3 or not code.isdigit() or code < b"100":
        raise NotHttp(f"its status line is {line[:60]!r}")
    return int(code)


def _make_head(lines: list[bytes], status: int, body_start: int) -> Head:
    headers: dict[bytes, bytes] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if not colon:
            raise NotHttp(f"a header line is {line[:60]!r}")
        headers[name.strip().lower()] = value.strip()
    keeps_alive = lines[0].startswith(b"HTTP/1.1") and headers.get(b"connection", b"").lower() != b"close"
    framing: Framing = "close"
    length = headers.get(b"content-length", b"0")
    if headers.get(b"transfer-encoding", b"").lower().endswith(b"chunked"):
        framing = "chunked"
    elif b"content-length" in headers or status in (204, 304):
        framing = "length"
        if not length.isdigit() or len(length) > 18:
            raise NotHttp(f"its Content-Length is {length[:60]!r}")
    return Head(
        status=status,
        headers=headers,
        body_start=body_start,
        framing=framing,
        content_length=int(length) if framing == "length" else 0,
        keeps_alive=keeps_alive and framing != "close",
    )


class Chunks:
    """The chunks of a chunked body, each parsed once, as they arrive."""

    __slots__ = ("is_complete", "next_offset", "pieces")

    def __init__(self, body_start: int) -> None:
        self.next_offset = body_start
        """Offset of the next chunk in the received bytes; of the end of the body once that is complete."""
        self.pieces: list[tuple[int, int]] = []
        """Offsets of the first byte and of the byte after the last, for the data of each whole chunk."""
        self.is_complete = False

    def walk(self, received: bytearray | bytes) -> bool:
        """Parse the whole chunks that were received since the last call; return whether the body is complete.

        Raises:
            NotHttp: the frames are broken.
        """
        at, total, find, add = self.next_offset, len(received), received.find, self.pieces.append
        sizes = _SIZES
        if self.is_complete:
            return True
        while True:
            self.next_offset = at
            line_end = find(b"\r\n", at, at + _MAX_CHUNK_LINE_BYTES)
            if line_end < 0:
                if total - at > _MAX_CHUNK_LINE_BYTES:
                    raise NotHttp("a chunk has no size")
                return False
            line = bytes(received[at:line_end])
            size = sizes.get(line)
            if size is None:
                size = _read_size(line)
                if len(sizes) < _MAX_SIZES:
                    sizes[line] = size
            if size == 0:
                # Between this line and the empty line there may be trailers.
                end = find(b"\r\n\r\n", line_end)
                if end < 0:
                    return False
                self.next_offset, self.is_complete = end + 4, True
                return True
            first = line_end + 2
            at = first + size + 2
            if at > total:
                return False
            if received[at - 2] != 13 or received[at - 1] != 10:
                raise NotHttp("a chunk is longer than its size says")
            add((first, at - 2))

    def read_unfinished(self, received: bytearray | bytes) -> tuple[int, int] | None:
        """Return the offsets of the received data of a chunk that is not whole yet; None without such data."""
        line_end = received.find(b"\r\n", self.next_offset)
        if self.is_complete or line_end < 0:
            return None
        first = line_end + 2
        end = min(len(received), first + _read_size(bytes(received[self.next_offset : line_end])))
        return (first, end) if end > first else None


def _read_size(line: bytes) -> int:
    # int() accepts more than HTTP does: signs, underscores, spaces, 0x.
    digits = line if line.isalnum() else line.partition(b";")[0].strip()
    if not digits.isalnum() or len(digits) > 15 or digits[1:2].lower() == b"x":
        raise NotHttp(f"a chunk's size is {line[:20]!r}")
    try:
        return int(digits, 16)
    except ValueError:
        raise NotHttp(f"a chunk's size is {line[:20]!r}") from None


def read_body(received: bytearray, head: Head, chunks: Chunks | None = None) -> Body:
    """Return the payload without its frames, as far as it was received.

    Raises:
        NotHttp: the frames are broken.
    """
    if head.framing != "chunked":
        stop = head.body_start + head.content_length if head.framing == "length" else len(received)
        return Body(payload=bytes(received[head.body_start : stop]), pieces=[(head.body_start, len(received))])
    chunks = chunks or Chunks(head.body_start)
    unfinished = None if chunks.walk(received) else chunks.read_unfinished(received)
    pieces = [*chunks.pieces, unfinished] if unfinished else chunks.pieces
    return Body(payload=b"".join([received[first:end] for first, end in pieces]), pieces=pieces)
