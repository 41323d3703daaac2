"""Pictures of pages: small, re-encoded, and never a reason to fail."""

from __future__ import annotations

import io
import random
import struct
import zlib

import pytest
from PIL import Image

from vlmhyperbench.reports.thumbnails import MAX_BYTES, make_thumbnail, read_thumbnail


def _encoded(image: Image.Image, kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


def _noise(side: int) -> Image.Image:
    return Image.frombytes("RGB", (side, side), random.Random(0).randbytes(3 * side * side))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_small_page_keeps_its_size(kind: str) -> None:
    thumbnail = make_thumbnail(_encoded(Image.new("RGB", (192, 96), "white"), kind))
    assert thumbnail is not None
    assert (thumbnail.width, thumbnail.height) == (192, 96)
    assert thumbnail.data_url.startswith("data:image/webp;base64,UklGR")


def test_noise_shrinks_until_it_fits() -> None:
    thumbnail = make_thumbnail(_encoded(_noise(900)))
    assert thumbnail is not None
    assert len(thumbnail.data) <= MAX_BYTES
    assert thumbnail.width < 560


def test_what_is_no_image_has_no_picture() -> None:
    assert make_thumbnail(b"nothing") is None
    assert make_thumbnail(_encoded(_noise(50))[:-4000]) is None
    assert make_thumbnail(_encoded(Image.new("RGB", (8, 8)), "GIF")) is None


def test_what_is_too_large_to_decode_has_no_picture() -> None:
    small = _encoded(Image.new("RGB", (8, 8)))
    header = b"IHDR" + struct.pack(">II", 20_000, 4_001) + small[24:29]
    assert make_thumbnail(small[:12] + header + struct.pack(">I", zlib.crc32(header)) + small[33:]) is None


def test_a_picture_that_was_made_is_taken_as_it_is() -> None:
    made = make_thumbnail(_encoded(_noise(900)))
    assert made is not None
    assert read_thumbnail(made.data) == made


def test_what_is_no_such_picture_is_not_taken() -> None:
    made = make_thumbnail(_encoded(_noise(300)))
    assert made is not None
    assert read_thumbnail(b"nothing") is None
    assert read_thumbnail(made.data[:-2000]) is None
    assert read_thumbnail(_encoded(Image.new("RGB", (8, 8)))) is None
    assert read_thumbnail(made.data + b"x" * MAX_BYTES) is None
