"""Validate images: PNG, JPEG or WEBP within limits of bytes and pixels that are checked before decoding."""

from __future__ import annotations

import hashlib
import io
import struct
import warnings
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from PIL import Image as Pillow
from PIL import UnidentifiedImageError
from pydantic import JsonValue

from vlmhyperbench.domain.specs import Limits
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench_sdk.types import Image

MEDIA_TYPES: Final = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
_SAME_FILE: Final = {"MPO": "JPEG"}
"""A JPEG with several pictures, as many phones write, is opened under another name; decoders show the first."""
DECODING_ERRORS: Final = (
    *(OSError, SyntaxError, ValueError, EOFError, TypeError, AttributeError, ArithmeticError, LookupError),
    *(struct.error, zlib.error, Pillow.DecompressionBombError),
)
"""Errors that Pillow's decoders raise for malformed or hostile bytes."""
_CURE: Final = "Replace the image in the dataset."


class InvalidImage(InvalidInput):
    """The image cannot be sent: its sample becomes an error row, and the run continues."""

    code = "invalid_image"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageInfo:
    """One image of a sample manifest; its bytes are stored once, by content."""

    sha256: str
    media_type: str
    width: int
    """Pixels."""
    height: int
    size_bytes: int
    source_sha256: str | None = None
    """Hash of the image of the dataset, if preprocessing changed it."""

    @property
    def storage_key(self) -> str:
        return image_key(self.sha256)

    def as_json(self) -> dict[str, JsonValue]:
        """Return the JSON form that the sample manifest and the body writer use."""
        return {name: getattr(self, name) for name in ("sha256", "media_type", "width", "height", "size_bytes")}


def image_key(sha256: str) -> str:
    """Return the storage key of an image."""
    return f"images/{sha256[:2]}/{sha256}"


def called(image: Image, root: Path | None) -> str:
    """Return the beginning of a message about an image: with its path inside the dataset's folder if it is a file.

    The message is part of the sample manifest, which must be equal on every machine that has the same files.
    """
    path = image.path
    if image.url is not None:
        return f"The image {image.url[:200]!r}"
    if path is None:
        return "The image"
    if root is not None and path.is_relative_to(root):
        path = path.relative_to(root)
    return f"The image {str(path)!r}"


_SCHEMES: Final = frozenset({"http:", "https:", "ftp:", "s3:", "gs:"})


def _is_address(path: Path, root: Path) -> bool:
    """Return whether a path inside a folder is a URL, whose two slashes have become one."""
    inside = path.relative_to(root).parts if path.is_relative_to(root) else ()
    return len(inside) > 1 and inside[0] in _SCHEMES and not (root / inside[0]).exists()


class Addresses(Protocol):
    """What fetches the images at URLs."""

    def read(self, url: str, limits: Limits) -> bytes:
        """Return the image at a URL.

        Raises:
            InvalidImage: there is none that may be fetched.
        """


def read_image(image: Image, *, root: Path | None, limits: Limits, addresses: Addresses | None = None) -> bytes:
    """Read an image's bytes; a file must be a regular file inside the dataset's folder, after links are resolved.

    URLs are fetched by `addresses`; without them, none is.

    Raises:
        InvalidImage: the file is outside of the folder, missing, not a regular file, or too large; or it is at a URL
            that is not fetched.
    """
    if image.url is not None:
        if addresses is None:
            cure = "Set VLMHB_FETCH_IMAGES=true where datasets are indexed, or name a file in the dataset's folder."
            raise InvalidImage(f"{called(image, root)} is at a URL, and none is fetched here.", cure=cure)
        return addresses.read(image.url, limits)
    if image.path is None:
        return image.read()
    what = called(image, root)
    try:
        if root is None:
            message = f"{what} is a file, but its dataset has no path to a folder with files."
            raise InvalidImage(message, cure="Set path in the entry of the dataset.")
        if _is_address(image.path, root):
            message = f"{what} is an address, and none in a path is fetched."
            raise InvalidImage(message, cure="Write the path of a file in the dataset's folder, or a URL of https.")
        path = image.path.resolve(strict=True)
        if not path.is_relative_to(root.resolve(strict=True)):
            message = f"{what} lies outside of the dataset's folder."
            raise InvalidImage(message, cure="Move the image into the folder.")
        if not path.is_file():
            raise InvalidImage(f"{what} is not a regular file.", cure="Put a file there.")
        with path.open("rb") as file:
            data = file.read(limits.max_image_bytes + 1)
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        cure = "Correct the path in the dataset, or the permissions of the file."
        raise InvalidImage(f"{what} cannot be read: {reason}.", cure=cure) from error
    return data


def check(data: bytes, limits: Limits, *, what: str = "The image", sha256: str | None = None) -> ImageInfo:
    """Decode an image once to validate it; bytes and pixels are bounded before anything is decoded.

    `what` is the beginning of the messages of errors; `sha256` is the hash of the bytes, if it is known.

    Raises:
        InvalidImage: it is not an image, is broken, or is too large.
    """
    if not data:
        raise InvalidImage(f"{what} is empty.", cure=_CURE)
    if len(data) > limits.max_image_bytes:
        raise InvalidImage(
            f"{what} is larger than {limits.max_image_bytes:,} bytes.",
            cure="Compress it, or raise limits.max_image_bytes of the run.",
        )
    try:
        with warnings.catch_warnings():
            # Pillow only warns about too many pixels; our limit is checked below, before anything is decoded.
            warnings.simplefilter("ignore")
            with Pillow.open(io.BytesIO(data), formats=list(MEDIA_TYPES)) as image:
                width, height = image.size
                if width * height > limits.max_image_pixels:
                    raise InvalidImage(
                        f"{what} has {width} × {height} = {width * height:,} pixels, more than "
                        f"{limits.max_image_pixels:,}.",
                        cure="Scale it down, or raise limits.max_image_pixels of the run.",
                    )
                media_type = MEDIA_TYPES[_SAME_FILE.get(image.format or "", image.format or "")]
                image.verify()  # checks the checksums and the end of a PNG, which decoding does not
            with Pillow.open(io.BytesIO(data), formats=list(MEDIA_TYPES)) as image:
                image.draft(None, (1, 1))  # all of a JPEG is read, and drawn at an eighth of its size
                image.load()
    except UnidentifiedImageError as error:
        raise InvalidImage(f"{what} is not in the format PNG, JPEG or WEBP.", cure="Convert it to PNG.") from error
    except DECODING_ERRORS as error:
        raise InvalidImage(f"{what} is broken: {error}.", cure=_CURE) from error
    return ImageInfo(
        sha256=sha256 or hashlib.sha256(data).hexdigest(),
        media_type=media_type,
        width=width,
        height=height,
        size_bytes=len(data),
    )
