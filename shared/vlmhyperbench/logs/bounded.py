"""Keep the first and the last part of an endless text in files, written at once, so that they outlive the process.

The text is stored in segments of equal size, each in a file that is named after the location of its first byte. The
first segment and the last two are kept; what lay between them is removed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

SEGMENT_BYTES = 512 * 1024


class BoundedLog:
    """Writes a text until its `with` block ends: `path` is the first segment, and `path.LOCATION` is any other."""

    def __init__(self, path: Path, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Begin a new log in the place of an earlier one.

        Raises:
            OSError: the file cannot be written.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        for _, earlier in _segments(path):
            earlier.unlink()
        self._path = path
        self._segment_bytes = segment_bytes
        self._starts = [0]
        self._written = 0
        self._file = path.open("wb", buffering=0)

    def write(self, text: str) -> None:
        """Append a text; it is in the file when this returns.

        Raises:
            OSError: the disk is full.
        """
        data = text.encode("utf-8", "replace")
        while data:
            room = self._starts[-1] + self._segment_bytes - self._written
            if room == 0:
                self._begin_segment()
                continue
            size = self._file.write(data[:room])
            self._written += size
            data = data[size:]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin_segment(self) -> None:
        self._file.close()
        self._starts.append(self._written)
        self._file = _segment(self._path, self._written).open("wb", buffering=0)
        for start in self._starts[1:-2]:
            _segment(self._path, start).unlink(missing_ok=True)
        del self._starts[1:-2]


def log_length(path: Path) -> int:
    """Return how many bytes were written to a log, removed ones included; 0 without a log."""
    return max((start + segment.stat().st_size for start, segment in _segments(path)), default=0)


def read_log(path: Path, *, first_bytes: int | None = None, since: int = 0) -> str:
    """Return the kept text of a log, with a line where a part of it is missing; empty without a log.

    Args:
        path: the first segment.
        first_bytes: limit of the first part, where the beginning is of interest only up to there; None: no limit.
        since: location from which the rest is of interest.
    """
    pieces: list[str] = []
    location = 0
    for start, segment in _segments(path):
        content = segment.read_bytes()
        first = 0 if start else len(content) if first_bytes is None else min(first_bytes, len(content))
        for begin, end in ((0, first), (max(since - start, first), len(content))):
            if begin >= end:
                continue
            if start + begin > location:
                pieces.append(f"\n[{start + begin - location} bytes are left out here]\n")
            pieces.append(content[begin:end].decode("utf-8", "replace"))
            location = start + end
    return "".join(pieces)


def read_ends(path: Path, *, since: int = 0, max_bytes: int = 2 * SEGMENT_BYTES) -> str:
    """Return what stands in a growing file from a location on, without its middle where it is too long; else ''."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        length = file.seek(0, 2) - since
        file.seek(since)
        if length <= max_bytes:
            return file.read().decode("utf-8", "replace")
        first = file.read(max_bytes // 2).decode("utf-8", "replace")
        file.seek(-(max_bytes // 2), 2)
        rest = file.read().decode("utf-8", "replace")
    return f"{first}\n[{length - max_bytes} bytes are left out here]\n{rest}"


def read_tail(path: Path, since: int, *, max_bytes: int) -> tuple[bytes, int]:
    """Return what was written to a log from a location on, at most its last `max_bytes`, and where the log ends."""
    end = log_length(path)
    begin = max(since, end - max_bytes)
    pieces: list[bytes] = []
    for start, segment in _segments(path):
        if start + segment.stat().st_size <= begin:
            continue
        with segment.open("rb") as file:
            file.seek(max(0, begin - start))
            pieces.append(file.read(max_bytes))
    data = b"".join(pieces)
    return data[: end - begin], end


def _segments(path: Path) -> list[tuple[int, Path]]:
    """Return the segments that exist, with the location of their first byte, in order."""
    later = [
        (int(found.suffix[1:]), found)
        for found in path.parent.glob(f"{path.name}.*")
        if found.suffix[1:].isdecimal() and found.stem == path.name
    ]
    return [*([(0, path)] if path.is_file() else []), *sorted(later)]


def _segment(path: Path, start: int) -> Path:
    return path.with_name(f"{path.name}.{start}")
