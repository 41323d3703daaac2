"""Bytes of small GGUF files, whole or wrong in one place."""

from __future__ import annotations

import struct


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def entry(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def tensor(name: str, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def header(entries: list[bytes], tensors: list[bytes], *, version: int = 3) -> bytes:
    start = struct.pack("<4sIQQ", b"GGUF", version, len(tensors), len(entries))
    return start + b"".join(entries) + b"".join(tensors)


def whole(architecture: str = "llama", *, content: bytes = b"", entries: tuple[bytes, ...] = ()) -> bytes:
    """Return a file of one tensor, whose data begin with `content`."""
    data = header(
        [entry("general.architecture", 8, text(architecture)), *entries], [tensor("token_embd.weight", (8,), 0, 0)]
    )
    return data + b"\0" * (-len(data) % 32) + content.ljust(32, b"\0")


def part(no: int, count: int) -> bytes:
    """Return one file of a model that was split into several, counted from 0."""
    return whole(
        entries=(entry("split.no", 2, struct.pack("<H", no)), entry("split.count", 2, struct.pack("<H", count)))
    )


def vocabulary() -> bytes:
    """Return a file that has a header and no weights."""
    return header([entry("general.architecture", 8, text("llama"))], [])
