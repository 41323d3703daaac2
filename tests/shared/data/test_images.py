"""Images: what is accepted, and how everything else is refused without being decoded."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow

from tests.support.wording import Wording
from vlmhyperbench.data.images import InvalidImage, check, image_key, read_image
from vlmhyperbench.domain.specs import Limits
from vlmhyperbench_sdk.types import Image

LIMITS = Limits()


def _encoded(kind: str = "PNG", size: tuple[int, int] = (3, 2)) -> bytes:
    file = io.BytesIO()
    Pillow.new("RGB", size, (10, 20, 30)).save(file, kind)
    return file.getvalue()


def _png_header(width: int, height: int) -> bytes:
    """A PNG of a few bytes that claims a size."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    end = b"IEND"
    return (
        b"\x89PNG\r\n\x1a\n"
        + struct.pack(">I", len(header)) + chunk + struct.pack(">I", zlib.crc32(chunk))
        + struct.pack(">I", 0) + end + struct.pack(">I", zlib.crc32(end))
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_three_kinds_of_images_are_accepted(kind: str) -> None:
    data = _encoded(kind)
    info = check(data, LIMITS)
    assert (info.media_type, info.width, info.height) == (f"image/{kind.lower()}", 3, 2)
    assert (info.sha256, info.size_bytes) == (hashlib.sha256(data).hexdigest(), len(data))
    assert info.storage_key == image_key(info.sha256) == f"images/{info.sha256[:2]}/{info.sha256}"


def test_a_jpeg_with_several_pictures_is_a_jpeg() -> None:
    file = io.BytesIO()
    first, second = (Pillow.new("RGB", (3, 2), colour) for colour in ("red", "blue"))
    first.save(file, "MPO", save_all=True, append_images=[second])
    info = check(file.getvalue(), LIMITS)
    assert (info.media_type, info.width, info.height) == ("image/jpeg", 3, 2)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello, I am no image at all",
        _encoded("GIF"),
        _encoded("BMP"),
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        _encoded()[:-20],
        _encoded("JPEG")[:300],
        _png_header(0, 0),
    ],
    ids=["nothing", "text", "gif", "bmp", "svg", "cut png", "cut jpeg", "empty png"],
)
def test_what_is_no_image_is_refused(data: bytes, wording: Wording) -> None:
    with pytest.raises(InvalidImage) as refused:
        check(data, LIMITS)
    wording(refused.value)


def test_an_image_with_too_many_bytes_is_refused_unread() -> None:
    with pytest.raises(InvalidImage, match="larger than 10 bytes"):
        check(_encoded(), Limits(max_image_bytes=10))


@pytest.mark.parametrize("side", [10_000, 100_000, 2_000_000_000])
def test_a_decompression_bomb_is_refused_before_it_is_decoded(side: int) -> None:
    with pytest.raises(InvalidImage, match=r"pixels|broken"):
        check(_png_header(side, side), LIMITS)


def test_pixels_are_bounded_by_the_limit(wording: Wording) -> None:
    assert check(_encoded(size=(10, 10)), Limits(max_image_pixels=100)).width == 10
    with pytest.raises(InvalidImage) as refused:
        check(_encoded(size=(10, 11)), Limits(max_image_pixels=100))
    wording(refused.value)


@given(kind=st.sampled_from(["PNG", "JPEG", "WEBP"]), place=st.integers(0, 200), junk=st.binary(min_size=1, max_size=8))
def test_any_damage_is_either_harmless_or_an_invalid_image(kind: str, place: int, junk: bytes) -> None:
    data = bytearray(_encoded(kind))
    data[place : place + len(junk)] = junk
    with contextlib.suppress(InvalidImage):
        check(bytes(data), LIMITS)


def test_an_image_in_the_dataset_s_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"bytes")
    (tmp_path / "link.png").symlink_to("a.png")
    assert read_image(Image(path=tmp_path / "a.png"), root=tmp_path, limits=LIMITS) == b"bytes"
    assert read_image(Image(path=tmp_path / "link.png"), root=tmp_path, limits=LIMITS) == b"bytes"
    assert read_image(Image(data=b"inline"), root=None, limits=LIMITS) == b"inline"


def test_an_image_outside_of_the_dataset_s_folder_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    (tmp_path / "secret.png").write_bytes(_encoded())
    (root / "link.png").symlink_to(tmp_path / "secret.png")
    for path in (root / "../secret.png", tmp_path / "secret.png", root / "link.png", Path("/etc/passwd")):
        with pytest.raises(InvalidImage, match="lies outside"):
            read_image(Image(path=path), root=root, limits=LIMITS)


@pytest.mark.parametrize(
    "address", ["http://169.254.169.254/x.png", "https://example.com/a/b.png", "s3://models/x.png"]
)
def test_an_address_is_never_fetched_and_the_error_says_so(address: str, tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(InvalidImage) as refused:
        read_image(Image(path=tmp_path / address), root=tmp_path, limits=LIMITS)
    wording(refused.value)
    (tmp_path / "http:").mkdir()
    (tmp_path / "http:" / "x.png").write_bytes(b"bytes")
    assert read_image(Image(path=tmp_path / "http:/x.png"), root=tmp_path, limits=LIMITS) == b"bytes"


def test_a_file_of_a_dataset_without_folder_is_refused(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(InvalidImage) as refused:
        read_image(Image(path=tmp_path / "a.png"), root=None, limits=LIMITS)
    wording(refused.value)


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "loop.png").symlink_to("loop.png")
    (tmp_path / "folder.png").mkdir()
    for name, message in {
        "none.png": "No such file",
        "pipe.png": "not a regular file",
        "folder.png": "not a regular file",
        "loop.png": "cannot be read",
        "nul\0.png": "cannot be read",
    }.items():
        with pytest.raises(InvalidImage, match=message):
            read_image(Image(path=tmp_path / name), root=tmp_path, limits=LIMITS)


def test_a_huge_file_is_read_only_up_to_the_limit(tmp_path: Path) -> None:
    with (tmp_path / "huge.png").open("wb") as file:
        file.truncate(10_000_000)
    data = read_image(Image(path=tmp_path / "huge.png"), root=tmp_path, limits=Limits(max_image_bytes=100))
    assert len(data) == 101
    with pytest.raises(InvalidImage, match="larger than 100 bytes"):
        check(data, Limits(max_image_bytes=100))
