"""Scale an image down for a list; bytes and pixels are bounded before anything is decoded."""

from __future__ import annotations

import io
import warnings
from typing import Final

from PIL import Image as Pillow

from vlmhyperbench.data.images import DECODING_ERRORS, MEDIA_TYPES, InvalidImage

SIDE: Final = 96
"""Longest side in pixels, which is sharp at 48 pixels of a dense screen."""
MEDIA_TYPE: Final = "image/webp"
MAX_BYTES: Final = 20_000_000
MAX_PIXELS: Final = 50_000_000
_QUALITY: Final = 60


def thumbnail(data: bytes) -> bytes:
    """Return a WebP of at most 96 × 96 pixels.

    Raises:
        InvalidImage: it is not an image, is broken, or is too large to be decoded.
    """
    if len(data) > MAX_BYTES:
        raise InvalidImage(f"The image is larger than {MAX_BYTES:,} bytes.", cure=_CURE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of many pixels; they are bounded below
            with Pillow.open(io.BytesIO(data), formats=list(MEDIA_TYPES)) as image:
                width, height = image.size
                if width * height > MAX_PIXELS:
                    raise InvalidImage(f"The image has more than {MAX_PIXELS:,} pixels.", cure=_CURE)
                image.draft("RGB", (2 * SIDE, 2 * SIDE))  # JPEG alone decodes at a fraction of its size
                image.thumbnail((SIDE, SIDE), reducing_gap=2.0)
                small = io.BytesIO()
                image.convert("RGB").save(small, "WEBP", quality=_QUALITY)
    except DECODING_ERRORS as error:
        raise InvalidImage(f"The image cannot be decoded: {error}.", cure=_CURE) from error
    return small.getvalue()


_CURE: Final = "Look at the image itself: leave out /thumbnail."
