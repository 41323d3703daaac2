"""Thumbnails of samples' images for lists: made when they are first asked for, and the newest kept in memory."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

from vlmhyperbench.data.images import image_key
from vlmhyperbench.data.thumbnails import thumbnail
from vlmhyperbench.storage import Storage

MAX_KEPT_BYTES: Final = 16_000_000
MAX_DECODED: Final = 1
"""Images that are decoded at the same time: one may have 50 million pixels."""


class Thumbnails:
    """Makes thumbnails. They depend on the image alone, so they are kept by its hash."""

    def __init__(self, storage: Storage, *, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._storage = storage
        self._max_bytes = max_bytes
        self._decoding = asyncio.Semaphore(MAX_DECODED)
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._kept_bytes = 0

    async def of(self, sha256: str) -> bytes:
        """Return the thumbnail of a stored image.

        Raises:
            InvalidImage: it cannot be decoded within the bounds.
            NotFound: it is not stored any more.
        """
        if sha256 not in self._kept:
            path = await self._storage.open(image_key(sha256), sha256)
            async with self._decoding:
                if sha256 not in self._kept:
                    small = await asyncio.to_thread(lambda: thumbnail(path.read_bytes()))
                    self._keep(sha256, small)
                    return small
        self._kept.move_to_end(sha256)
        return self._kept[sha256]

    def _keep(self, sha256: str, small: bytes) -> None:
        self._kept[sha256] = small
        self._kept_bytes += len(small)
        while self._kept_bytes > self._max_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._kept_bytes -= len(oldest)
