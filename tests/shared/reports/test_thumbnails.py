"""Pictures of pages: small and encoded again; a page without a picture does not fail the report."""

from __future__ import annotations

import io
import random
import struct
import zlib

import pytest
from PIL import Image

from vlmhyperbench.reports.writers import thumbnails
from vlmhyperbench.reports.writers.thumbnails import MAX_BYTES, make_thumbnail, make_thumbnails, read_thumbnail


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
    assert thumbnail.width < 900


def test_a_page_of_a_document_stays_large_enough_to_read() -> None:
    page = Image.new("L", (1240, 1754), "white")
    for y in range(80, 1680, 32):
        page.paste(0, (80, y, 1100, y + 14))
    thumbnail = make_thumbnail(_encoded(page))
    assert thumbnail is not None
    assert thumbnail.height == 1600
    assert len(thumbnail.data) <= MAX_BYTES


def test_pages_beyond_those_of_cases_are_shrunk_while_they_are_small_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thumbnails, "MAX_COUNT", 2)
    monkeypatch.setattr(thumbnails, "MAX_FURTHER_PIXELS", 250)
    page = _encoded(Image.new("RGB", (10, 10)))
    pages = {"a": _encoded(Image.new("RGB", (400, 400))), "b": b"none", "c": page, "d": page, "e": page}
    assert list(make_thumbnails(pages)) == ["a", "c", "d"]


def test_all_pictures_together_fit_their_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thumbnails, "MAX_COUNT", 2)
    monkeypatch.setattr(thumbnails, "MAX_TOTAL_BYTES", 2 * MAX_BYTES)
    page = _encoded(_noise(300))
    found = make_thumbnails({str(i): page for i in range(6)})
    assert 2 <= len(found) < 6
    assert sum(len(thumbnail.data) for thumbnail in found.values()) <= 2 * MAX_BYTES


def test_content_that_is_no_image_has_no_picture() -> None:
    assert make_thumbnail(b"nothing") is None
    assert make_thumbnail(_encoded(_noise(50))[:-4000]) is None
    assert make_thumbnail(_encoded(Image.new("RGB", (8, 8)), "GIF")) is None


def test_an_image_that_is_too_large_to_decode_has_no_picture() -> None:
    small = _encoded(Image.new("RGB", (8, 8)))
    header = b"IHDR" + struct.pack(">II", 20_000, 4_001) + small[24:29]
    assert make_thumbnail(small[:12] + header + struct.pack(">I", zlib.crc32(header)) + small[33:]) is None


def test_a_thumbnail_is_read_unchanged() -> None:
    made = make_thumbnail(_encoded(_noise(900)))
    assert made is not None
    assert read_thumbnail(made.data) == made


def test_content_that_is_no_thumbnail_is_not_read() -> None:
    made = make_thumbnail(_encoded(_noise(300)))
    assert made is not None
    assert read_thumbnail(b"nothing") is None
    assert read_thumbnail(made.data[:-2000]) is None
    assert read_thumbnail(_encoded(Image.new("RGB", (8, 8)))) is None
    assert read_thumbnail(made.data + b"x" * MAX_BYTES) is None
