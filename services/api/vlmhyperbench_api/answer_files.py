"""Uploaded files of answers: validated in a bounded child process, stored by content hash, and described."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from pathlib import Path
from typing import Final

from vlmhyperbench.errors import NotFound
from vlmhyperbench.exchange.answers import answers_key
from vlmhyperbench.exchange.questions import count_images
from vlmhyperbench.exchange.summary import summarise
from vlmhyperbench.storage import Storage
from vlmhyperbench.wire.answers import Answers

MEDIA_TYPE: Final = "application/x-ndjson"
MAX_READERS: Final = 2
"""Maximum number of files that are read at the same time, each in its own process; others wait."""
MAX_REMEMBERED: Final = 256
"""Maximum number of cached descriptions; others are computed again from their files."""


class AnswerFiles:
    """Stores and describes uploaded files. Descriptions depend on content only, so they are cached by its hash."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._readers = asyncio.Semaphore(MAX_READERS)
        self._known: OrderedDict[str, Answers] = OrderedDict()

    async def keep(self, project_id: str, path: Path, *, sha256: str) -> Answers:
        """Validate a file and store it for a project; storing the same file again has no effect.

        Raises:
            InvalidInput: it is not a valid file of answers.
            Unavailable: it cannot be stored.
        """
        description = await self._described(path, sha256)
        await asyncio.to_thread(self._storage.put, answers_key(project_id, sha256), path, media_type=MEDIA_TYPE)
        return description

    async def describe(self, project_id: str, sha256: str) -> Answers:
        """Describe a file that was uploaded to the project.

        Raises:
            NotFound: it was not uploaded to the project.
            Damaged: the stored content does not match the hash.
        """
        key = answers_key(project_id, sha256)
        if not await self._storage.exists(key):
            raise NotFound(f"There are no answers {sha256[:12]}….", cure="Send the file first.")
        return await self._described(await self._storage.open(key, sha256), sha256)

    async def images_of_question(self, project_id: str, sha256: str) -> int:
        """Return how many images the question of an uploaded file has; each of them can be sent.

        Raises:
            NotFound, Damaged: as `describe`.
            InvalidInput: the file has not one question, or an image of it cannot be sent.
        """
        await self.describe(project_id, sha256)
        path = await self._storage.open(answers_key(project_id, sha256), sha256)
        async with self._readers:
            return await count_images(path)

    async def _described(self, path: Path, sha256: str) -> Answers:
        if sha256 not in self._known:
            async with self._readers:
                description = await summarise(path, sha256=sha256)
            self._known[sha256] = description
            if len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)
            return description
        self._known.move_to_end(sha256)
        return self._known[sha256]
