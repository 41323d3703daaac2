"""Requests to load and to unload models: each is taken by one idle worker, and what came of it is recorded."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.support.engine_room import EngineRoom
from vlmhyperbench.db import held_models, workers
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.views import HeldModelView

pytestmark = pytest.mark.anyio

PROJECT = "p"


@pytest.fixture
def room(fresh_database: Database) -> EngineRoom:
    return EngineRoom(fresh_database)


async def ask(room: EngineRoom, name: str, *, digest: str = "d", is_pinned: bool = False) -> HeldModelView:
    async with room.database.transaction() as session:
        return await held_models.ask_to_load(
            session, PROJECT, name, target={"model": name}, digest=digest, is_pinned=is_pinned, by="anna"
        )


async def unload(room: EngineRoom, name: str) -> str | None:
    async with room.database.transaction() as session:
        asked = await held_models.ask_to_unload(session, PROJECT, name, by="bert")
    return asked.state if asked is not None else None


async def take(room: EngineRoom, worker_id: UUID, *resident: str) -> HeldModelView | None:
    async with room.database.transaction() as session:
        return await held_models.take(session, worker_id, resident)


async def settle(room: EngineRoom, worker_id: UUID, state: str) -> None:
    async with room.database.transaction() as session:
        for model in await held_models.of_project(session, PROJECT):
            await held_models.settle(session, model, worker_id, state, None)


async def states(room: EngineRoom) -> dict[str, str]:
    async with room.database.transaction() as session:
        return {model.name: model.state for model in await held_models.of_project(session, PROJECT)}


async def test_a_model_is_loaded_by_one_worker_and_unloaded_by_the_same(room: EngineRoom) -> None:
    worker, other = await room.add_worker(), await room.add_worker()
    assert (await ask(room, "a")).state == "waiting"
    taken = await take(room, worker)
    assert taken is not None
    assert (taken.name, taken.state, await take(room, other)) == ("a", "loading", None)
    await settle(room, other, "error")
    await settle(room, worker, "loaded")
    assert await states(room) == {"a": "loaded"}
    assert (await ask(room, "a")).state == "loaded"
    assert await unload(room, "a") == "loaded"
    assert await take(room, other, "d") is None
    unloading = await take(room, worker, "d")
    assert unloading is not None
    assert unloading.wanted == "unloaded"
    await settle(room, worker, "unloaded")
    assert await states(room) == {"a": "unloaded"}
    assert await take(room, worker) is None


async def test_a_request_that_nobody_took_is_withdrawn_at_once_and_a_new_version_is_loaded_anew(
    room: EngineRoom,
) -> None:
    worker = await room.add_worker()
    await ask(room, "a")
    assert await unload(room, "a") == "unloaded"
    assert await unload(room, "b") is None
    await ask(room, "a")
    await take(room, worker)
    await settle(room, worker, "loaded")
    assert (await ask(room, "a", digest="e")).state == "waiting"


async def test_a_pinned_model_waits_again_where_another_is_only_unloaded(room: EngineRoom) -> None:
    worker = await room.add_worker()
    for name, is_pinned in (("a", True), ("b", False)):
        await ask(room, name, digest=name, is_pinned=is_pinned)
        assert await take(room, worker, "a") is not None
        await settle(room, worker, "loaded")
    again = await take(room, worker)  # a run that was alone on the worker has unloaded both
    assert again is not None
    assert (again.name, await states(room)) == ("a", {"a": "loading", "b": "unloaded"})
    async with room.database.transaction() as session:
        await workers.set_state(session, worker, "GONE")
    assert await states(room) == {"a": "waiting", "b": "unloaded"}
