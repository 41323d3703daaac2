"""Pictures of pages for reports: readable, bounded in size, and always encoded again, never the raw upload."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from PIL import Image, UnidentifiedImageError

MAX_COUNT = 30
"""Maximum number of pages of cases."""
MAX_FURTHER = 210
"""Maximum number of pages that only the table of samples shows; `MAX_FURTHER_PIXELS` bounds their originals."""
MAX_BYTES = 80_000
"""Maximum size of one picture."""
MAX_TOTAL_BYTES = MAX_COUNT * MAX_BYTES
MAX_FURTHER_PIXELS = 20_000_000
MAX_PIXELS = 80_000_000
"""Larger pages are not decoded; the limits of the run were checked when pages were indexed."""
_SIDES = (1600, 1200, 900, 640, 420, 240, 96)
"""Lengths of the longer side, tried in order; a picture of the last length always fits `MAX_BYTES`."""
_QUALITIES = (75, 55)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thumbnail:
    """A WEBP picture and its size in pixels."""

    data: bytes
    width: int
    height: int
    media_type: str = "image/webp"

    @property
    def data_url(self) -> str:
        return f"data:{self.media_type};base64,{base64.b64encode(self.data).decode()}"


def make_thumbnails(images: Mapping[str, bytes]) -> dict[str, Thumbnail]:
    """Shrink pages in their order: `MAX_COUNT` of them, then further ones while the bounds allow."""
    pictures: dict[str, Thumbnail] = {}
    total = pixels = 0
    for no, (name, data) in enumerate(images.items()):
        pixels += _pixels(data) if no >= MAX_COUNT else 0
        if pixels > MAX_FURTHER_PIXELS or total > MAX_TOTAL_BYTES - MAX_BYTES:
            break
        picture = make_thumbnail(data)
        if picture is not None:
            pictures[name] = picture
            total += len(picture.data)
    return pictures


def _pixels(data: bytes) -> int:
    """Return the number of pixels of a picture without decoding it; 0 for other content."""
    try:
        with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "WEBP")) as image:
            return image.width * image.height
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return 0


def make_thumbnail(data: bytes) -> Thumbnail | None:
    """Shrink a PNG, JPEG or WEBP image until it fits; None for other content, or an image too large to decode."""
    try:
        with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "WEBP")) as image:
            if image.width * image.height > MAX_PIXELS:
                return None
            picture = image.convert("RGB")
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    candidates = (_encode(picture, side, quality) for side, quality in product(_SIDES, _QUALITIES))
    return next(thumbnail for thumbnail in candidates if len(thumbnail.data) <= MAX_BYTES)


def read_thumbnail(data: bytes) -> Thumbnail | None:
    """Read a picture that `make_thumbnail` wrote; None for other content."""
    if len(data) > MAX_BYTES:
        return None
    try:
        with Image.open(io.BytesIO(data), formats=("WEBP",)) as image:
            image.load()
            return Thumbnail(data=data, width=image.width, height=image.height)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None


def _encode(picture: Image.Image, side: int, quality: int) -> Thumbnail:
    small = picture.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS, reducing_gap=2.0)
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=quality, method=4)
    return Thumbnail(data=buffer.getvalue(), width=small.width, height=small.height)
