"""Hold the end of an engine's output, masked, because it explains a failure."""

from __future__ import annotations

import asyncio
import codecs
import logging
import logging.handlers
import re
from collections import deque
from pathlib import Path

from vlmhyperbench.logs import StreamMasker, process_masker

TAIL_BYTES = 65_536
SHOWN_LINES = 30
LOG_BYTES = 5 * 1024 * 1024

_OUT_OF_MEMORY = re.compile(
    r"out of memory|outofmemory|cannot allocate memory|failed to allocate|unable to allocate|bad_alloc|\bMemoryError\b",
    re.IGNORECASE,
)


class EngineOutput:
    """The last 64 KiB of an engine's output in memory, and all of it, masked, in a rotating file if one is named."""

    def __init__(self, log: Path | None = None) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._masker = StreamMasker(process_masker)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._file = _open_log(log) if log is not None else None

    async def pump(self, reader: asyncio.StreamReader) -> None:
        """Read until the engine closes its output."""
        while piece := await reader.read(TAIL_BYTES):
            self._pieces.append(piece)
            self._size += len(piece)
            while self._size > TAIL_BYTES and len(self._pieces) > 1:
                self._size -= len(self._pieces.popleft())
            if self._file is not None:
                self._write(self._masker.feed(self._decode(piece)))
        if self._file is not None:
            self._write(self._masker.end())
            self._file.close()

    def text(self) -> str:
        """Return the end of the output, masked."""
        return process_masker.mask(b"".join(self._pieces).decode("utf-8", "replace"))

    def tail(self) -> str:
        """Return the last lines, masked."""
        return "\n".join(self.text().splitlines()[-SHOWN_LINES:])

    def says_out_of_memory(self) -> bool:
        """Return whether the engine reported that memory ran out."""
        return says_out_of_memory(self.text())

    def _write(self, text: str) -> None:
        if self._file is not None and text:
            self._file.emit(logging.makeLogRecord({"msg": text}))


def says_out_of_memory(text: str) -> bool:
    """Return whether a text of an engine says that memory ran out."""
    return _OUT_OF_MEMORY.search(text) is not None


def _open_log(path: Path) -> logging.handlers.RotatingFileHandler:
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.handlers.RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8")
    handler.terminator = ""
    return handler
