"""Hold the end of an engine's output, masked, because it explains a failure; keep its first and last part in a file."""

from __future__ import annotations

import asyncio
import codecs
from collections import deque
from pathlib import Path

from vlmhyperbench.logs import StreamMasker, get_logger, process_masker
from vlmhyperbench.logs.bounded import BoundedLog
from vlmhyperbench_sdk.out_of_memory import says_out_of_memory

TAIL_BYTES = 65_536
SHOWN_LINES = 30
SHOWN_CHARACTERS = 4000


class EngineOutput:
    """The last 64 KiB of an engine's output in memory, and its first and last part, masked, in a file if one is named.

    The file is written as the output arrives, so that it survives the death of engine, gateway and worker.
    """

    def __init__(self, log: Path | None = None) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._masker = StreamMasker(process_masker)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._log = _open_log(log) if log is not None else None

    async def pump(self, reader: asyncio.StreamReader) -> None:
        """Read until the engine closes its output."""
        while piece := await reader.read(TAIL_BYTES):
            self._pieces.append(piece)
            self._size += len(piece)
            while self._size > TAIL_BYTES and len(self._pieces) > 1:
                self._size -= len(self._pieces.popleft())
            self._write(self._masker.feed(self._decode(piece)))
        self._write(self._masker.end())
        if self._log is not None:
            self._log.close()

    def text(self) -> str:
        """Return the end of the output, masked."""
        return process_masker.mask(b"".join(self._pieces).decode("utf-8", "replace"))

    def tail(self) -> str:
        """Return the last lines, masked, at most `SHOWN_CHARACTERS` of them."""
        return "\n".join(self.text().splitlines()[-SHOWN_LINES:])[-SHOWN_CHARACTERS:]

    def says_out_of_memory(self) -> bool:
        """Return whether the engine reported that memory ran out."""
        return says_out_of_memory(self.text())

    def _write(self, text: str) -> None:
        if self._log is None or not text:
            return
        try:
            self._log.write(text)
        except OSError as error:  # a full disk must not block the engine, whose output has to be read
            get_logger(__name__).warning("engine_log.given_up", reason=str(error))
            self._log.close()
            self._log = None


def _open_log(path: Path) -> BoundedLog | None:
    try:
        return BoundedLog(path)
    except OSError as error:
        get_logger(__name__).warning("engine_log.not_opened", path=str(path), reason=str(error))
        return None
