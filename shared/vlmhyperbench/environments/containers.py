"""Containers of every kind as environments: their image is examined once, and used under a shared lock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from vlmhyperbench.domain.environments import ApptainerSpec, DockerSpec
from vlmhyperbench.environments.base import CONTAINER_VARIABLES, Prepared, Tell, full_disk
from vlmhyperbench.environments.standing_in import Order
from vlmhyperbench.environments.store import EnvironmentStore, Ready
from vlmhyperbench.errors import is_disk_full


@asynccontextmanager
async def prepared_container(
    spec: DockerSpec | ApptainerSpec,
    store: EnvironmentStore,
    key: str,
    launcher: str,
    *,
    build: Callable[[Path], Awaitable[Ready]],
    check: Callable[[Ready], None],
    tell: Tell,
) -> AsyncIterator[Prepared]:
    """Examine or build the image unless that is done, and hold it while the block runs.

    Args:
        spec: The container.
        store: Where what is known of it is kept.
        key: Hash of what its image is.
        launcher: Module that stands in for its engine.
        build: Gets an empty folder for what it makes, and returns what is known of the image.
        check: Raises if the image is not there any more, or another; called in a thread before every use.
        tell: Is told what takes time.

    Raises:
        Unavailable: the disk is full.
        VlmHyperBenchError: what `build` and `check` raise.
    """

    async def examine() -> Ready:
        await tell("installing", None)
        folder = store.folder_of(key)
        folder.mkdir(mode=0o700, parents=True)
        return await build(folder)

    async with AsyncExitStack() as held:
        try:
            ready, lock_fd = await store.hold_built(key, examine, held, tell)
        except OSError as error:
            if not is_disk_full(error):
                raise
            raise full_disk(store.folder) from error
        await asyncio.to_thread(check, ready)
        order = Order(spec=spec.model_dump(mode="json"), marker=str(store.marker_file(key)))
        yield Prepared(
            key=key,
            python=spec.python,
            python_version=ready.python_version,
            packages=ready.packages,
            lock_fd=lock_fd,
            inherited=CONTAINER_VARIABLES,
            image=ready.image,
            launcher=order.argv(launcher),
        )
