"""Turn the images of a request into data URLs. Files must be below the data root; remote URLs are never fetched."""

from __future__ import annotations

import base64
import binascii
import re
from pathlib import Path

from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench_gateway.image_sizes import image_size
from vlmhyperbench_sdk.message_images import map_images
from vlmhyperbench_sdk.types import JsonObject

MAX_IMAGE_BYTES = 64 * 1024 * 1024
MAX_IMAGE_PIXELS = 100_000_000
"""The engine allocates three bytes or more for each of them, however few bytes the image has."""

_DATA = re.compile(r"data:image/(png|jpeg|webp);base64,")
_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"RIFF", "image/webp"),
)


def inline_images(request: JsonObject, data_root: Path | None) -> JsonObject:
    """Return the request with every image as a data URL.

    Raises:
        InvalidInput: an image is a remote URL, is outside the data root, is not a PNG, JPEG or WEBP, or is too large.
        NotFound: the file does not exist.
    """

    def inline(url: str) -> str:
        if url.startswith("data:"):
            _check_data_url(url)
            return url
        data = _read_below(data_root, url)
        _check_size(data)
        return to_data_url(data)

    return map_images(request, inline)


def to_data_url(data: bytes) -> str:
    """Return an encoded image as a data URL; its type is read from its first bytes.

    Raises:
        InvalidInput: it is not a PNG, JPEG or WEBP.
    """
    return f"data:{_media_type(data)};base64,{base64.b64encode(data).decode()}"


def _check_data_url(url: str) -> None:
    match = _DATA.match(url)
    if match is None:
        cure = "Send it as data:image/png;base64,…"
        raise InvalidInput("An image's data URL begins with data:image/png, jpeg or webp and ;base64.", cure=cure)
    try:
        data = binascii.a2b_base64(url[match.end() :], strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput(f"An image's data URL is not base64: {error}.", cure="Encode its bytes anew.") from error
    if len(data) > MAX_IMAGE_BYTES:
        raise InvalidInput(f"An image has at most {MAX_IMAGE_BYTES} bytes.", cure="Send it smaller.")
    _check_size(data)


def _read_below(data_root: Path | None, url: str) -> bytes:
    if data_root is None or (":" in url and not url.startswith("file://")):
        raise InvalidInput(
            "An image must be a data URL, or a file below the data root; remote URLs are never fetched.",
            cure="Send it as data:image/png;base64,…",
        )
    root = data_root.resolve()
    path = (root / url.removeprefix("file://")).resolve()
    if not path.is_relative_to(root):
        cure = "Name a file below it, by its path there."
        raise InvalidInput(f"The image {url[:200]!r} is outside of the data root.", cure=cure)
    if not path.is_file():
        raise NotFound(f"There is no image {url[:200]!r} below the data root.")
    if path.stat().st_size > MAX_IMAGE_BYTES:
        raise InvalidInput(f"An image has at most {MAX_IMAGE_BYTES} bytes.", cure="Send it smaller.")
    return path.read_bytes()


def _check_size(data: bytes) -> None:
    _media_type(data)
    try:
        width, height = image_size(data)
    except ValueError as error:
        raise InvalidInput(f"An image cannot be read: {error}.", code="invalid_image") from error
    if width * height > MAX_IMAGE_PIXELS:
        message = f"An image has {width} x {height} pixels, which are more than {MAX_IMAGE_PIXELS:,}."
        raise InvalidInput(message, cure="Send it smaller, or in parts.", code="invalid_image")


def _media_type(data: bytes) -> str:
    for signature, media_type in _SIGNATURES:
        if data.startswith(signature) and (media_type != "image/webp" or data[8:12] == b"WEBP"):
            return media_type
    raise InvalidInput("An image is not a PNG, JPEG or WEBP.", cure="Convert it to one.", code="invalid_image")
