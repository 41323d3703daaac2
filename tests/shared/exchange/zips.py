"""Build zips as strangers may: Zstandard entries by hand, since nothing that is installed here packs it."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

HEADER = {"version": 2, "status": "success", "eval": {"task": "t", "model": "m"}}


def frame(*blocks: bytes | tuple[bytes, int]) -> bytes:
    """Make a Zstandard frame of raw blocks, and of one byte that is repeated (RFC 8878, 3.1.1)."""
    sizes = [len(block) if isinstance(block, bytes) else block[1] for block in blocks]
    parts = [struct.pack("<IBQ", 0xFD2FB528, 0b11100000, sum(sizes))]
    for no, (block, size) in enumerate(zip(blocks, sizes, strict=True)):
        kind, content = (0, block) if isinstance(block, bytes) else (1, block[0])
        is_last = no == len(blocks) - 1
        parts.append((size << 3 | kind << 1 | is_last).to_bytes(3, "little") + content)
    return b"".join(parts)


def zipped(path: Path, entries: Mapping[str, object], *, method: int = zipfile.ZIP_DEFLATED) -> Path:
    """Write a zip; what is no bytes is written as JSON."""
    with zipfile.ZipFile(path, "w", method) as made:
        for name, value in entries.items():
            made.writestr(name, value if isinstance(value, bytes) else json.dumps(value))
    return path


def zstandard(path: Path, name: str, packed: bytes, *, size: int, crc: int) -> Path:
    """Add a Zstandard entry to a zip, which says of it what is asked for."""
    with zipfile.ZipFile(path, "a", zipfile.ZIP_STORED) as made:
        made.writestr(name, packed)
    whole = bytearray(path.read_bytes())
    stored = struct.pack("<III", zlib.crc32(packed), len(packed), len(packed))
    said = struct.pack("<III", crc, len(packed), size)
    for signature, method_at, sizes_at in ((b"PK\3\4", 8, 14), (b"PK\1\2", 10, 16)):
        at = whole.find(signature)
        while whole[at + sizes_at : at + sizes_at + 12] != stored:
            at = whole.find(signature, at + 1)
        whole[at + method_at : at + method_at + 2] = struct.pack("<H", 93)
        whole[at + sizes_at : at + sizes_at + 12] = said
    path.write_bytes(whole)
    return path
