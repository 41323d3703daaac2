"""The stated size of an image is the one to which it is decoded, and no damage breaks the reading of it."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from vlmhyperbench_gateway.image_sizes import image_size

WRITTEN = (
    *(("PNG", {}), ("JPEG", {}), ("JPEG", {"progressive": True, "exif": b"Exif\0\0" + bytes(60_000)})),
    *(("WEBP", {}), ("WEBP", {"lossless": True}), ("WEBP", {"exif": b"Exif\0\0"})),
)


def written(form: str, options: dict[str, object], size: tuple[int, int] = (123, 45)) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", size, "red").save(data, form, **options)
    return data.getvalue()


@pytest.mark.parametrize(("form", "options"), WRITTEN)
@pytest.mark.parametrize("size", [(123, 45), (1, 1), (700, 3)])
def test_the_size_is_that_of_the_decoded_image(form: str, options: dict[str, object], size: tuple[int, int]) -> None:
    assert image_size(written(form, options, size)) == size


@pytest.mark.parametrize(("form", "options"), WRITTEN)
def test_a_header_that_is_cut_off_states_no_size(form: str, options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"header|segments|chunk"):
        image_size(written(form, options)[:20])


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_a_size_of_nothing_is_refused(form: str) -> None:
    data = written(form, {}, (0x7B, 0x2D))
    stated = b"\0\0\0\x7b\0\0\0\x2d" if form == "PNG" else b"\0\x2d\0\x7b"
    with pytest.raises(ValueError, match="states no size"):
        image_size(data.replace(stated, bytes(len(stated)), 1))


@given(st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBPVP8 "]), st.binary(max_size=200))
def test_any_bytes_have_a_size_or_a_reason(beginning: bytes, rest: bytes) -> None:
    try:
        width, height = image_size(beginning + rest)
    except ValueError:
        return
    assert width > 0
    assert height > 0
