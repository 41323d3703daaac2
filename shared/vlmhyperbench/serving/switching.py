"""Load the models of a pipeline one after the other: whoever asks another model waits until the loaded one is free."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import httpx2

from vlmhyperbench.serving.memory_back import free_bytes, private_bytes, unload_measured
from vlmhyperbench.serving.plan import ServedModel

MARGIN_S: Final = 30.0
"""How much longer than the load itself its answer may take."""
_MAX_REASON: Final = 500
"""Of an engine's output, which follows the first line of the reason, nothing is told to clients."""


class NotLoaded(Exception):
    """A model could not be loaded; the message says why."""


class ModelSwitch:
    """At most one loaded model, in the order in which they are asked for."""

    def __init__(
        self, key: str, models: Sequence[ServedModel] = (), *, free: Callable[[], int | None] = free_bytes
    ) -> None:
        """Begin with no model.

        Args:
            key: What every gateway takes.
            models: All of the pipeline, of which an earlier process of this kind may have left one loaded.
            free: Returns the bytes that are free.
        """
        self._http = httpx2.AsyncClient(headers={"X-API-Key": key}, timeout=MARGIN_S, trust_env=False)
        self._free = free
        self._left = {model.url: model for model in models if model.load is not None}
        self._turn = asyncio.Lock()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._users = 0
        self._loaded: ServedModel | None = None
        self._pid: int | None = None
        """Process of its engine."""
        self._is_doubted = False
        """Whether the loaded model may be lost, since a request to it has failed."""

    async def close(self) -> None:
        """Close the connections; whoever has started the gateways unloads the models."""
        await self._http.aclose()

    @asynccontextmanager
    async def using(self, model: ServedModel) -> AsyncIterator[None]:
        """Hold a model loaded; where all models are loaded, do nothing.

        Raises:
            NotLoaded: it cannot be loaded.
        """
        if model.load is None:
            yield
            return
        async with self._turn:
            if self._loaded is None or self._loaded.url != model.url or await self._is_lost(model):
                await self._is_idle.wait()
                await _whole(self._switch(model))
            self._users += 1
            self._is_idle.clear()
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                self._is_idle.set()

    async def why_lost(self, model: ServedModel) -> str | None:
        """Return why a model to which a request has failed is lost; None if it is ready, and only the request failed.

        A lost one is loaded again: for the next question here, or by who has started its gateway if it stays loaded.
        """
        reason = await self._reason(model)
        if reason is not None and self._loaded is not None and self._loaded.url == model.url:
            self._is_doubted = True
        return reason

    async def _is_lost(self, model: ServedModel) -> bool:
        if self._is_doubted:
            self._is_doubted = await self._reason(model) is not None
        return self._is_doubted

    async def _reason(self, model: ServedModel) -> str | None:
        try:
            status = await self._http.get(f"{model.url}/v1/model/status")
            told = status.json() if status.status_code == 200 else {}
        except (httpx2.HTTPError, ValueError) as error:
            return f"its gateway does not answer: {error!r}."
        if told.get("state") == "ready":
            return None
        first = str(told.get("error") or "").partition("\n")[0]
        return first[:_MAX_REASON] or f"its state is {told.get('state', 'not known')}."

    async def _switch(self, model: ServedModel) -> None:
        if self._loaded is not None:
            await self._unload(self._loaded)
        for left in list(self._left.values()):
            await self._end(left)
        load = model.load or {}
        timeout = float(str(load.get("load_timeout_s", 0))) + MARGIN_S
        try:
            answer = await self._http.post(f"{model.url}/v1/model/load", json=load, timeout=timeout)
        except httpx2.HTTPError as error:
            raise NotLoaded(f"The gateway of {model.name} does not answer: {error!r}.") from error
        if answer.status_code != 200 or answer.json().get("state") != "ready":
            raise NotLoaded(f"The model {model.name} was not loaded: {answer.text[:2000]}")
        self._loaded, self._is_doubted = model, False
        self._pid = (answer.json().get("engine") or {}).get("pid")

    async def _unload(self, model: ServedModel) -> None:
        held = model.held_bytes or await asyncio.to_thread(private_bytes, self._pid)
        unloaded = await unload_measured(partial(self._end, model), held, self._free)
        told = f"{unloaded.back} of {unloaded.held} bytes are free again"
        print(f"unloaded {model.name}: {told}", file=sys.stderr, flush=True)

    async def _end(self, model: ServedModel) -> None:
        """Unload a model; until its gateway says that it is, it counts as loaded, so that no other comes beside it."""
        self._is_doubted = True
        try:
            answer = await self._http.post(f"{model.url}/v1/model/unload")
        except httpx2.HTTPError as error:
            if isinstance(error, httpx2.ConnectError):  # a gateway that has ended has ended its engine
                self._forget(model)
            raise NotLoaded(f"The model {model.name} was not unloaded: {error!r}.") from error
        if answer.status_code != 200:
            raise NotLoaded(f"The model {model.name} was not unloaded: {answer.text[:2000]}")
        self._forget(model)

    def _forget(self, model: ServedModel) -> None:
        self._loaded = None
        self._left.pop(model.url, None)


async def _whole(switching: Coroutine[None, None, None]) -> None:
    """Let a switch end even if who asked for it leaves: half of it would leave a gateway in between."""
    task = asyncio.create_task(switching)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
