"""Make synthetic images: PNGs of any size with a patch of seeded noise, so that each differs for a cache."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from vlmhyperbench_sdk.errors import InvalidInput

PATCH_PIXELS = 64
"""Side of the noise patch; the rest has one colour, so that the file is small at any size."""

MAX_PIXELS = 16_384
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_RGB_8 = (8, 2, 0, 0, 0)


def noise_png(width: int, height: int, *, seed: int) -> bytes:
    """Return an RGB image as PNG; the same arguments make the same bytes, another seed makes another image.

    Raises:
        InvalidInput: a side is below 1 or above `MAX_PIXELS`.
    """
    if not (1 <= width <= MAX_PIXELS and 1 <= height <= MAX_PIXELS):
        message = f"An image cannot have the size {width}x{height}."
        raise InvalidInput(message, cure=f"Give sides from 1 to {MAX_PIXELS} pixels.")
    rng = np.random.default_rng([seed, width, height])
    # Each line of a PNG begins with one more byte, its filter type; 0 is none.
    lines = np.zeros((height, 1 + 3 * width), dtype=np.uint8)
    lines[:, 1:] = np.tile(rng.integers(64, 192, 3, dtype=np.uint8), width)
    side_x, side_y = min(PATCH_PIXELS, width), min(PATCH_PIXELS, height)
    lines[:side_y, 1 : 1 + 3 * side_x] = rng.integers(0, 256, (side_y, 3 * side_x), dtype=np.uint8)
    data = zlib.compress(lines.tobytes(), 1)
    head = struct.pack(">II5B", width, height, *_RGB_8)
    return _SIGNATURE + _chunk(b"IHDR", head) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def parse_sizes(text: str) -> tuple[tuple[int, int], ...]:
    """Parse sizes such as `512x512,1024x768`.

    Raises:
        InvalidInput: a size has another form.
    """
    return tuple(parse_size(part.strip()) for part in text.split(","))


def parse_size(text: str) -> tuple[int, int]:
    """Parse a size such as `1024x768`.

    Raises:
        InvalidInput: the text has another form.
    """
    width, _, height = text.lower().partition("x")
    if not (width.isascii() and width.isdigit() and height.isascii() and height.isdigit()):
        raise InvalidInput(f"{text!r} is not the size of an image.", cure="Write WIDTHxHEIGHT, for example 1024x768.")
    return int(width), int(height)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
