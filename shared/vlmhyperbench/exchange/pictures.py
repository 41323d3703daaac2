"""Images of imports and exports: data URLs, each written once, and placeholders for missing images."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from vlmhyperbench.data.images import InvalidImage
from vlmhyperbench.errors import NotFound
from vlmhyperbench_sdk.types import Image

SAME: Final = "same:"
"""Prefix of a reference by SHA-256 to a data URL of an earlier answer in the file."""
MAX_IN_ALL_BYTES: Final = 512 * 1024**2
"""Maximum size of all data URLs of a file, each counted once."""
MAX_OF_SAMPLE_BYTES: Final = 40 * 1024**2
"""Maximum size of one answer's data URLs: its line or entry is held in memory as a whole."""
MAX_PER_SAMPLE: Final = 256
_DATA: Final = "data:"
_MAX_SHOWN_CHARS: Final = 200
_MAGIC: Final = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"RIFF": "image/webp"}


def data_url(data: bytes) -> str:
    """Encode a stored image as a data URL."""
    kind = next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), "application/octet-stream")
    return f"{_DATA}{kind};base64,{base64.b64encode(data).decode()}"


def digest_of_url(url: str) -> str:
    """Return the SHA-256 by which a data URL is referred to."""
    return hashlib.sha256(url.encode(errors="surrogatepass")).hexdigest()


class Budget:
    """Limits the size of all images of a file; images beyond it are left out and counted."""

    def __init__(self) -> None:
        self.left_out = 0
        self._left = MAX_IN_ALL_BYTES
        self._known: set[str] = set()

    def of(self, urls: list[str]) -> tuple[str, ...]:
        """Return the images of an answer in the neutral format: a data URL at its first use, then a reference."""
        images, of_sample = [], 0
        for url in urls[: MAX_PER_SAMPLE + 1]:
            if not url.startswith(_DATA):
                images.append(url[:_MAX_SHOWN_CHARS])
                continue
            digest = digest_of_url(url)
            if digest in self._known:
                images.append(SAME + digest)
            elif len(url) > min(self._left, MAX_OF_SAMPLE_BYTES - of_sample):
                self.left_out += 1
                images.append(f"an image of {len(url) >> 20} MiB, beyond what a file may hold")
            else:
                self._known.add(digest)
                self._left -= len(url)
                of_sample += len(url)
                images.append(url)
        return tuple(images)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoImage(Image):
    """Placeholder for an image that the file does not contain; reading it raises the reason."""

    reason: str = ""
    data: bytes | None = b""

    def read(self) -> bytes:
        raise InvalidImage(self.reason)


def image_of(url: str, known: Mapping[str, str]) -> Image:
    """Return the image that an answer names, or a placeholder if it is missing or invalid; nothing is ever fetched."""
    url = known.get(url.removeprefix(SAME), "") if url.startswith(SAME) else url
    if not url.startswith(_DATA):
        return NoImage(reason=f"The file does not hold the image, but {url[:_MAX_SHOWN_CHARS]!r}.")
    head, comma, text = url.partition(",")
    if not comma or not head.endswith(";base64"):
        return NoImage(reason="The image is a data URL without base64.")
    try:
        return Image(data=base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError) as error:
        return NoImage(reason=f"The image is no base64: {error}.")


@dataclass(slots=True)
class Pictures:
    """Images of an exported run as data URLs, within the same limits."""

    fetch: Callable[[str], bytes]
    """SHA-256 → content."""
    left_out: int = 0
    _left: int = MAX_IN_ALL_BYTES
    _recent: dict[str, str] = field(default_factory=dict)

    def of(self, images: tuple[str, ...]) -> dict[str, str]:
        """Return the images of an answer by hash: all of its images, or none."""
        urls: dict[str, str] = {}
        try:
            for sha256 in images if self._left else ():
                urls[sha256] = self._recent.get(sha256) or data_url(self.fetch(sha256))
        except NotFound:
            urls = {}
        size = sum(map(len, urls.values()))
        if len(urls) < len(set(images)) or size > min(self._left, MAX_OF_SAMPLE_BYTES):
            self.left_out += len(images)
            return {}
        self._left -= size
        self._recent = urls  # questions about the same page are adjacent, and their examples are the same
        return urls
