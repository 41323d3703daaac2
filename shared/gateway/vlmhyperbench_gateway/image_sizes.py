"""The size of an image as its header states it: a few bytes may decode to gigabytes, so it is known before that."""

from __future__ import annotations

import struct
from typing import Final

_NO_FRAME: Final = frozenset({0xC4, 0xC8, 0xCC})
"""JPEG's markers among those of frames (C0 to CF) that begin no frame: tables and an extension."""
_ALONE: Final = frozenset({0x01, *range(0xD0, 0xD9)})
"""JPEG's markers without a length."""


def image_size(data: bytes) -> tuple[int, int]:
    """Return width and height of a PNG, JPEG or WEBP in pixels, as a decoder takes them from its header.

    Sources: PNG (W3C, 2003) 11.2.2; JPEG (ITU-T T.81) B.2.2; WebP's container (RFC 9649) 2.5 to 2.7.

    Raises:
        ValueError: the header is not whole, or states no size.
    """
    try:
        if data.startswith(b"\x89PNG"):
            width, height = struct.unpack_from(">II", data, 16)
        elif data.startswith(b"\xff\xd8"):
            height, width = struct.unpack_from(">HH", data, _frame(data) + 5)
        else:
            width, height = _webp(data)
    except (struct.error, IndexError) as error:
        raise ValueError("its header is cut off") from error
    if not width or not height:
        raise ValueError("its header states no size")
    return width, height


def _frame(data: bytes) -> int:
    """Return where the first frame's header begins, behind the segments before it."""
    at = 2
    while True:
        if data[at] != 0xFF:
            raise ValueError("its segments do not follow each other")
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            return at
        if marker == 0xFF:
            at += 1
        elif marker in _ALONE:
            at += 2
        else:
            at += 2 + max(2, struct.unpack_from(">H", data, at + 2)[0])


def _webp(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    raise ValueError("its first chunk is no image")
