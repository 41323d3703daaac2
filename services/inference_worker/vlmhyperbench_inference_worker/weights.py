"""Bring the files of a job's model to where its engine reads them, with progress for those who watch the run."""

from __future__ import annotations

import asyncio
from typing import Final

from vlmhyperbench.data.fetching import fetch_missing, is_complete, sources_of
from vlmhyperbench.data.making import make
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.data.repositories import Arrival
from vlmhyperbench.data.sending import send_model
from vlmhyperbench.data.weights import cached_files, files_for_engine
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.environments.base import Tell
from vlmhyperbench.environments.rented_files import MAX_SEND_S
from vlmhyperbench.environments.targets import PreparedTarget
from vlmhyperbench.worker.claims import PROGRESS_S, ClaimedJob

MAX_FETCH_S: Final = 24 * 3600.0
"""How long fetching a model from a hub may take; nothing is committed meanwhile, and what has arrived is kept."""


async def bring_weights(job: ClaimedJob, target: ModelTarget, cache: ModelCache) -> None:
    """Fetch or make the files of a model that this machine lacks; the run's progress shows bytes and steps meanwhile.

    Raises:
        InvalidInput: a tool of the recipe refuses the model.
        NotFound: the repository, the prefix or a file is gone.
        Conflict: there is no room, or a file is not the pinned one.
        Denied: the source refuses this machine.
        Unavailable: the source or an index of packages does not answer.
    """
    recipe, arrival = target.recipe, Arrival()
    if await asyncio.to_thread(is_complete, target.files, cache):
        return

    async def bring(tell: Tell) -> None:
        await asyncio.to_thread(fetch_missing, target.files, cache, sources_of(job.settings), arrival)
        if recipe is not None:
            await make(recipe, job.settings, arrival, tell=tell)

    with job.preparing("recipe", MAX_FETCH_S) as tell:
        bringing = asyncio.ensure_future(bring(tell))
        try:
            while not bringing.done():
                await asyncio.wait({bringing}, timeout=PROGRESS_S)
                if arrival.done < arrival.total:
                    await job.announce("weights", done=arrival.done, total=arrival.total, unit="bytes")
            await bringing
        finally:
            bringing.cancel()  # kills a tool that runs; what has arrived of a file is kept


async def send_weights(job: ClaimedJob, target: ModelTarget, cache: ModelCache, ready: PreparedTarget) -> None:
    """Bring the files of a model to the rented machine of its engine, which is no part of the load; bytes are shown.

    Raises:
        NotFound: a file is missing.
        Conflict: a file is not the pinned one.
        Unavailable: they do not arrive.
    """

    async def sent(done: int, total: int) -> None:
        await job.announce("sending", done=done, total=total, unit="bytes")

    with job.extended_stall_limit(MAX_SEND_S), cache.in_use(cached_files(target.files)):
        files = await asyncio.to_thread(files_for_engine, target.files, cache)
        await send_model(ready.rented, target.files, files, job.settings, sent=sent)
