"""Small pictures of pages for reports: at most `MAX_COUNT` of at most `MAX_BYTES`, re-encoded, never the raw upload."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from itertools import product

from PIL import Image, UnidentifiedImageError

MAX_COUNT = 30
MAX_BYTES = 20_000
MAX_PIXELS = 80_000_000
"""A page beyond that is not decoded; pages were checked against the run's own limits when they were indexed."""
_SIDES = (560, 420, 320, 240, 160, 96)
"""The last one fits whatever the picture shows."""
_QUALITIES = (85, 70, 50)


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


def make_thumbnail(data: bytes) -> Thumbnail | None:
    """Shrink a PNG, JPEG or WEBP until it fits, or return None for what is no such image or is too large to decode."""
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
    """Take a picture that `make_thumbnail` made as it is, or return None for anything else."""
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
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=quality, method=4)
    return Thumbnail(data=buffer.getvalue(), width=small.width, height=small.height)
