"""Thumbnails that the API keeps: made once, and the oldest forgotten."""

from __future__ import annotations

import asyncio
import hashlib
import io
from pathlib import Path

import pytest
from PIL import Image as Pillow

from vlmhyperbench.data.images import image_key
from vlmhyperbench.storage import Storage, open_storage
from vlmhyperbench_api.thumbnails import Thumbnails

pytestmark = pytest.mark.anyio


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path / "storage"))


def _store(storage: Storage, colour: str) -> str:
    written = io.BytesIO()
    Pillow.new("RGB", (200, 100), colour).save(written, "PNG")
    sha256 = hashlib.sha256(written.getvalue()).hexdigest()
    storage.put(image_key(sha256), written.getvalue())
    return sha256


async def test_a_thumbnail_is_made_once_for_all_who_ask(storage: Storage) -> None:
    thumbnails, sha256 = Thumbnails(storage), _store(storage, "red")
    made = await asyncio.gather(*(thumbnails.of(sha256) for _ in range(5)))
    assert {id(small) for small in made} == {id(made[0])}
    with Pillow.open(io.BytesIO(made[0])) as image:
        assert image.size == (96, 48)


async def test_the_oldest_are_forgotten_beyond_the_bound(storage: Storage) -> None:
    red, blue = _store(storage, "red"), _store(storage, "blue")
    first = await Thumbnails(storage).of(red)
    thumbnails = Thumbnails(storage, max_bytes=len(first) + 1)
    kept = await thumbnails.of(red)
    await thumbnails.of(blue)
    again = await thumbnails.of(red)
    assert again == kept
    assert again is not kept
