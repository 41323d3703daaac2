"""Thumbnails: small, of the right shape, and never of more pixels than the bound."""

from __future__ import annotations

import io
import struct
import zlib

import pytest
from PIL import Image as Pillow

from vlmhyperbench.data.images import InvalidImage
from vlmhyperbench.data.thumbnails import MAX_BYTES, SIDE, thumbnail


def _picture(width: int, height: int, *, mode: str = "RGB", format_: str = "PNG") -> bytes:
    written = io.BytesIO()
    Pillow.new(mode, (width, height)).save(written, format_)
    return written.getvalue()


@pytest.mark.parametrize(("mode", "format_"), [("RGB", "PNG"), ("RGBA", "PNG"), ("P", "PNG"), ("CMYK", "JPEG")])
def test_a_thumbnail_keeps_the_shape_and_is_a_small_webp(mode: str, format_: str) -> None:
    small = thumbnail(_picture(1000, 500, mode=mode, format_=format_))
    with Pillow.open(io.BytesIO(small)) as image:
        assert (image.format, image.size) == ("WEBP", (SIDE, SIDE // 2))
    assert len(small) < 4096


def test_a_small_image_is_not_scaled_up() -> None:
    with Pillow.open(io.BytesIO(thumbnail(_picture(4, 2)))) as image:
        assert image.size == (4, 2)


def _claims(width: int, height: int) -> bytes:
    """Return a PNG of few bytes that says it has so many pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"picture",
        _picture(100, 100)[:60],
        _picture(4, 4, format_="GIF"),
        _claims(30_000, 30_000),
        b"x" * (MAX_BYTES + 1),
    ],
    ids=["empty", "text", "cut", "other format", "many pixels", "many bytes"],
)
def test_what_is_no_image_within_the_bounds_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidImage) as refused:
        thumbnail(data)
    assert refused.value.code == "invalid_image"
    assert refused.value.cure
