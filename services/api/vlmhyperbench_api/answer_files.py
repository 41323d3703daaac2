"""Files of answers that clients have sent: checked in a bounded process, stored by content, described from there."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from pathlib import Path
from typing import Final

from vlmhyperbench.errors import NotFound
from vlmhyperbench.exchange.answers import answers_key
from vlmhyperbench.exchange.summary import summarise
from vlmhyperbench.storage import Storage
from vlmhyperbench.wire.answers import Answers

MEDIA_TYPE: Final = "application/x-ndjson"
MAX_READERS: Final = 2
"""Files that are read at once, each in a process of its own; the others wait."""
MAX_REMEMBERED: Final = 256
"""Descriptions that are kept in memory; any other is made from its file again."""


class AnswerFiles:
    """What each file holds is derived from its content, so it is remembered by the content's hash."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._readers = asyncio.Semaphore(MAX_READERS)
        self._known: OrderedDict[str, Answers] = OrderedDict()

    async def keep(self, project_id: str, path: Path, *, sha256: str) -> Answers:
        """Check a file and store it for a project; the same file again changes nothing.

        Raises:
            InvalidInput: it is no file of answers.
            Unavailable: it cannot be stored.
        """
        found = await self._described(path, sha256)
        await asyncio.to_thread(self._storage.put, answers_key(project_id, sha256), path, media_type=MEDIA_TYPE)
        return found

    async def describe(self, project_id: str, sha256: str) -> Answers:
        """Say what a file holds that somebody of the project sent.

        Raises:
            NotFound: nobody sent it.
            Damaged: storage holds something else in its place.
        """
        key = answers_key(project_id, sha256)
        if not await self._storage.exists(key):
            raise NotFound(f"There are no answers {sha256[:12]}….", cure="Send the file first.")
        return await self._described(await self._storage.open(key, sha256), sha256)

    async def _described(self, path: Path, sha256: str) -> Answers:
        if sha256 not in self._known:
            async with self._readers:
                found = await summarise(path, sha256=sha256)
            self._known[sha256] = found
            if len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)
            return found
        self._known.move_to_end(sha256)
        return self._known[sha256]
