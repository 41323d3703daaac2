"""Images in a format that llama.cpp reads: its decoder, stb_image, knows no WebP, which becomes PNG."""

from __future__ import annotations

import base64
import binascii
import io
from typing import Final

from vlmhyperbench_sdk.errors import InvalidInput

WEBP: Final = "data:image/webp;base64,"
_PNG: Final = "data:image/png;base64,"
_FAST: Final = 1
"""Level of compression: the engine is on this machine or near it."""


def readable(url: str) -> str:
    """Return a data URL with the same pixels that llama.cpp reads; of a moving image the first picture.

    Raises:
        InvalidInput: the image is broken (code `invalid_image`).
    """
    if not url.startswith(WEBP):
        return url
    from PIL import Image  # imported here since few requests have such an image

    try:
        with Image.open(io.BytesIO(base64.b64decode(url[len(WEBP) :], validate=True)), formats=["WEBP"]) as image:
            written = io.BytesIO()
            image.save(written, "PNG", compress_level=_FAST)
    except (OSError, ValueError, SyntaxError, binascii.Error, Image.DecompressionBombError) as error:
        raise InvalidInput(f"The WEBP image is broken: {error}.", cure="Replace it.", code="invalid_image") from error
    return _PNG + base64.b64encode(written.getvalue()).decode()
