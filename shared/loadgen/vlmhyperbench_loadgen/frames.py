"""The pipes between parent and measuring processes: marshalled frames up, JSON lines down.

A measuring process is forked from its parent, so both are the same interpreter, as marshal requires.
"""

from __future__ import annotations

import marshal
import os
import struct
from collections import deque
from typing import Any, TypeAlias

import orjson

from vlmhyperbench_loadgen.eventloop import READ, WRITE, EventLoop

Frame: TypeAlias = dict[str, Any]
"""`{"event": …}`: up, opened, rows, closed, end, failed."""

_LENGTH = struct.Struct("<I")
_HIGH_WATER_BYTES = 64 * 1024 * 1024
_READ_BYTES = 1024 * 1024


def encode(frame: Frame) -> bytes:
    """Make the bytes of a frame."""
    data = marshal.dumps(frame)
    return _LENGTH.pack(len(data)) + data


class FrameReader:
    """Splits a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Add bytes; return the frames that are complete with them."""
        self._buffer += data
        frames: list[Frame] = []
        at = 0
        while len(self._buffer) - at >= _LENGTH.size:
            start = at + _LENGTH.size
            end = start + _LENGTH.unpack_from(self._buffer, at)[0]
            if len(self._buffer) < end:
                break
            frames.append(marshal.loads(memoryview(self._buffer)[start:end]))  # noqa: S302 -- written by a fork of this process
            at = end
        del self._buffer[:at]
        return frames


class Outbox:
    """A non-blocking pipe to the parent, so that measuring does not wait for the parent."""

    def __init__(self, loop: EventLoop, fd: int) -> None:
        os.set_blocking(fd, False)
        self._loop = loop
        self._fd = fd
        self._buffer = bytearray()
        self._is_watched = False

    def put(self, frame: Frame) -> None:
        """Send a frame, now or as soon as the pipe has room; wait only above the high-water mark."""
        self._buffer += encode(frame)
        self._write()
        if len(self._buffer) > _HIGH_WATER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Wait until everything is written."""
        os.set_blocking(self._fd, True)
        while self._buffer:
            self._write()
        os.set_blocking(self._fd, False)

    def ready(self, fd: int, mask: int) -> None:  # noqa: ARG002 -- the signature of `Watcher`
        """The pipe is writable."""
        self._write()

    def _write(self) -> None:
        try:
            while self._buffer:
                sent = os.write(self._fd, memoryview(self._buffer)[:_READ_BYTES])
                del self._buffer[:sent]
        except BlockingIOError:  # the pipe is full: `ready` writes the rest
            pass
        wants = bool(self._buffer)
        if wants != self._is_watched:
            self._is_watched = wants
            if wants:
                self._loop.watch(self._fd, WRITE, self)
            else:
                self._loop.unwatch(self._fd)


class Inbox:
    """The parent's commands, one JSON object per line; the end of input means `end`."""

    def __init__(self, loop: EventLoop, fd: int) -> None:
        os.set_blocking(fd, False)
        loop.watch(fd, READ, self)
        self._loop = loop
        self._buffer = bytearray()
        self.commands: deque[Frame] = deque()

    def ready(self, fd: int, mask: int) -> None:  # noqa: ARG002 -- the signature of `Watcher`
        """A command has arrived, or a part of it."""
        data = os.read(fd, _READ_BYTES)
        if not data:
            self._loop.unwatch(fd)
            self.commands.append({"do": "end"})
            return
        self._buffer += data
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer = bytearray(rest)
        self.commands.extend(orjson.loads(line) for line in lines if line)
