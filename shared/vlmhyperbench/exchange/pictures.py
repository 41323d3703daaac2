"""Images of imports and exports: data URLs, each written once, and placeholders for missing images."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
    """Name a data URL."""
    return hashlib.sha256(url.encode(errors="surrogatepass")).hexdigest()


class Budget:
    """What images of one file may still take; what is beyond is left out, and counted."""

    def __init__(self) -> None:
        self.left_out = 0
        self._left = MAX_IN_ALL_BYTES
        self._known: set[str] = set()

    def of(self, urls: list[str]) -> tuple[str, ...]:
        """Return the images of an answer in the neutral format: a data URL at its first use, then a reference."""
        found, of_sample = [], 0
        for url in urls[: MAX_PER_SAMPLE + 1]:
            if not url.startswith(_DATA):
                found.append(url[:_MAX_SHOWN_CHARS])
                continue
            digest = digest_of_url(url)
            if digest in self._known:
                found.append(SAME + digest)
            elif len(url) > min(self._left, MAX_OF_SAMPLE_BYTES - of_sample):
                self.left_out += 1
                found.append(f"an image of {len(url) >> 20} MiB, beyond what a file may hold")
            else:
                self._known.add(digest)
                self._left -= len(url)
                of_sample += len(url)
                found.append(url)
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoImage(Image):
    """What a file has in an image's place."""

    reason: str = ""
    data: bytes | None = b""

    def read(self) -> bytes:
        raise InvalidImage(self.reason)


def image_of(url: str, known: Mapping[str, str]) -> Image:
    """Return the image that an answer names; one that is none says so when it is read. Nothing is ever fetched."""
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
    """Images of a run on their way out, as data URLs, within the same bounds."""

    fetch: Callable[[str], bytes]
    """SHA-256 → content."""
    left_out: int = 0
    _left: int = MAX_IN_ALL_BYTES
    _last: tuple[str, str] = ("", "")

    def of(self, images: tuple[str, ...]) -> dict[str, str]:
        """Return the images of one answer by hash: an answer has all of its images, or none."""
        found: dict[str, str] = {}
        try:
            for sha256 in images if self._left else ():
                if self._last[0] != sha256:  # questions about the same page are adjacent
                    self._last = (sha256, data_url(self.fetch(sha256)))
                found[sha256] = self._last[1]
        except NotFound:
            found = {}
        size = sum(map(len, found.values()))
        if len(found) < len(set(images)) or size > min(self._left, MAX_OF_SAMPLE_BYTES):
            self.left_out += len(images)
            return {}
        self._left -= size
        return found
