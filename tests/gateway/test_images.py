"""What a client names as an image: bombs are refused by their header, nothing is fetched, no file outside is read."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

import pytest

from tests.support.wording import Wording
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench_gateway.images import MAX_IMAGE_PIXELS, inline_images
from vlmhyperbench_sdk.types import JsonObject

SIDE = 20_000
HEADERS = {
    "png": b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", SIDE, SIDE, 8, 2, 0, 0, 0),
    "jpeg": b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc2" + struct.pack(">HBHHB", 17, 8, SIDE, SIDE, 3),
    "webp": b"RIFF\x1e\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + 2 * (SIDE - 1).to_bytes(3, "little"),
}
"""Type → the header of an image of 400 million pixels."""


def asked(url: str) -> JsonObject:
    """Return a request with one image."""
    return {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]}


def data_url(data: bytes, kind: str) -> str:
    """Return an image as a data URL."""
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize("kind", HEADERS)
def test_an_image_bomb_is_refused_by_its_header(kind: str, tmp_path: Path, wording: Wording) -> None:
    assert SIDE * SIDE > MAX_IMAGE_PIXELS
    (tmp_path / "bomb").write_bytes(HEADERS[kind])
    for url in (data_url(HEADERS[kind], kind), "bomb"):
        with pytest.raises(InvalidInput) as refused:
            inline_images(asked(url), tmp_path)
        wording(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://2852039166/",
        "https://example.com/page.png",
        "ftp://127.0.0.1/page.png",
        data_url(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "svg+xml"),
        data_url(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "png"),
        "../page.png",
        "/etc/passwd",
        "file:///etc/passwd",
    ],
)
def test_no_address_no_vector_graphic_and_no_path_outside_of_the_root_is_read(
    url: str, tmp_path: Path, wording: Wording
) -> None:
    with pytest.raises(InvalidInput) as refused:
        inline_images(asked(url), tmp_path)
    wording(refused.value)
