"""The engine behind the gateway: its states, its child process, its end.

unloaded ─load→ loading ─loaded→ ready ─unload→ unloading ─unloaded→ unloaded
│ failed        │ died
└──→ error ←────┘          from error: load, unload
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, Self

from vlmhyperbench.errors import Conflict, NotReady, VlmHyperBenchError
from vlmhyperbench.logs import get_logger, hide, process_masker, unhide
from vlmhyperbench_gateway.adapters import load_adapter, refuse_what_cannot_fit
from vlmhyperbench_gateway.endings import MemoryKills
from vlmhyperbench_gateway.errors import LOAD_LONGER, EngineFailed, LoadFailed
from vlmhyperbench_gateway.identity import ask_properties, hash_files, identify_launched, identify_remote, list_packages
from vlmhyperbench_gateway.launching import Placement, plan, start
from vlmhyperbench_gateway.memory import VramWatch
from vlmhyperbench_gateway.output import EngineOutput
from vlmhyperbench_gateway.readiness import Engine, probe, wait_ready, warm_up
from vlmhyperbench_gateway.settings import GatewaySettings
from vlmhyperbench_gateway.transport import EngineClient
from vlmhyperbench_gateway.variables import settings_of
from vlmhyperbench_sdk.gateway import OUTPUT_FOLLOWS, EngineIdentity, LoadRequest, ModelState, ModelStatus
from vlmhyperbench_sdk.net import parse_url, resolve
from vlmhyperbench_sdk.protocols import Backend, EngineLaunch, RemoteEngine

Event = Literal["load", "loaded", "failed", "died", "unload", "unloaded"]

TRANSITIONS: Mapping[tuple[ModelState, Event], ModelState] = {
    ("unloaded", "load"): "loading",
    ("error", "load"): "loading",
    ("loading", "loaded"): "ready",
    ("loading", "failed"): "error",
    ("loading", "unload"): "unloading",
    ("ready", "died"): "error",
    ("ready", "unload"): "unloading",
    ("error", "unload"): "unloading",
    ("unloading", "unloaded"): "unloaded",
}

STOP_SECONDS = 5.0
"""How long an engine may take to end after SIGTERM."""

EXPLAIN_SECONDS = 2.0
"""How long a broken connection waits for the engine to exit, since its exit explains the failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What a request needs of a loaded model."""

    model: str
    adapter: Backend
    client: EngineClient
    vram: VramWatch


class EngineHost:
    """Loads at most one model at a time; every process that it started ends with its `async with` block."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._status = ModelStatus(state="unloaded")
        self._serving: Serving | None = None
        self._engine: Engine | None = None
        self._life: asyncio.Task[None] | None = None
        self._tasks = asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.unload()
        await self._tasks.__aexit__(None, None, None)

    @property
    def status(self) -> ModelStatus:
        """What `GET /v1/model/status` answers."""
        return self._status

    def serving(self) -> Serving:
        """Return the loaded model.

        Raises:
            NotReady: no model is loaded, or it is still loading, or it has ended.
        """
        if self._status.state != "ready" or self._serving is None:
            raise NotReady(f"No model is ready: the state is {self._status.state}.", cure="Load one first.")
        return self._serving

    async def explain(self, failure: EngineFailed) -> VlmHyperBenchError:
        """Return the reason for a broken exchange: the exit of the engine if it has exited, else the failure itself."""
        engine = self._engine
        if engine is None:
            return failure
        await asyncio.wait([engine.exited], timeout=EXPLAIN_SECONDS)
        return engine.describe_end("while it served") if engine.exited.done() else failure

    async def load(self, request: LoadRequest) -> ModelStatus:
        """Start an engine and wait until it answers; a caller that disconnects does not stop the load.

        Raises:
            Conflict: a model is loaded and `replace` is not set, or a model is being loaded or unloaded.
            InvalidInput: the adapter or the URL is not allowed, a parameter is wrong, the endpoint refuses the key, or
                the model needs more memory than is free.
            NotFound: adapter, file or secret does not exist.
            LoadFailed: the engine did not become ready.
            OutOfMemory: the model did not fit into memory.
        """
        self._refuse_second(request)
        adapter = load_adapter(request.backend_class, self._settings.environment.adapters)
        planned = plan(adapter, request, self._settings.environment.python)
        if self._status.state == "ready":
            await self.unload()
        elif self._life is not None:
            await asyncio.wait([self._life])
        self._refuse_second(request)
        if not self._settings.environment.is_rented:
            await asyncio.to_thread(refuse_what_cannot_fit, adapter, request)
        self._refuse_second(request)  # another load may have begun meanwhile
        self._move("load", ModelStatus(state="loading", model=request.model, backend_class=request.backend_class))
        outcome: asyncio.Future[ModelStatus] = asyncio.get_running_loop().create_future()
        self._life = self._tasks.create_task(self._live(request, adapter, planned, outcome))
        return await asyncio.shield(outcome)

    async def unload(self) -> ModelStatus:
        """End the engine and forget the secrets; a load in progress is cancelled. Unloading nothing is no error."""
        life = self._life
        if self._status.state in {"loading", "ready"} and life is not None:
            self._move("unload", self._status)
            life.cancel()
        if life is not None:
            await asyncio.wait([life])
        if self._status.state == "error":
            self._move("unload", self._status)
            self._move("unloaded", ModelStatus(state="unloaded"))
        return self._status

    def _refuse_second(self, request: LoadRequest) -> None:
        state = self._status.state
        if state in {"loading", "unloading"} or (state == "ready" and not request.replace):
            raise Conflict(
                f"The model {self._status.model} is {'loaded' if state == 'ready' else state}.",
                cure="Unload it first, or set replace.",
            )

    def _move(self, event: Event, status: ModelStatus) -> None:
        state = TRANSITIONS[self._status.state, event]
        self._status = replace(status, state=state)
        get_logger(__name__).info("model", state=state, model=status.model, error=status.error)

    def _fail(self, event: Literal["failed", "died"], error: VlmHyperBenchError) -> None:
        self._serving = None
        status = ModelStatus(
            state="error",
            model=self._status.model,
            backend_class=self._status.backend_class,
            error=process_masker.mask(str(error)),
            error_code=error.code,
        )
        self._move(event, status)

    async def _live(
        self,
        request: LoadRequest,
        adapter: Backend,
        plan: EngineLaunch | RemoteEngine,
        outcome: asyncio.Future[ModelStatus],
    ) -> None:
        """The whole life of one engine, from load to unload; `outcome` is settled when the load is over."""
        secrets = [*request.env.values(), *(plan.headers.values() if isinstance(plan, RemoteEngine) else ())]
        hide(secrets)
        try:
            if isinstance(plan, EngineLaunch):
                await self._live_with_child(request, adapter, plan, outcome)
            else:
                await self._live_with_remote(request, adapter, plan, outcome)
        except asyncio.CancelledError:
            if not outcome.done():
                outcome.set_exception(LoadFailed("The load was cancelled by an unload.", code="load_cancelled"))
        except (VlmHyperBenchError, OSError) as raised:
            error = (
                raised if isinstance(raised, VlmHyperBenchError) else LoadFailed(f"The engine cannot start: {raised}.")
            )
            if self._status.state == "loading":
                self._fail("failed", error)
            if not outcome.done():
                masked = type(error)(process_masker.mask(error.message), cure=error.cure, code=error.code)
                outcome.set_exception(masked)
        finally:
            if not outcome.done():
                outcome.set_exception(LoadFailed("The load broke off."))
            self._serving = None
            unhide(secrets)
            if self._status.state == "unloading":
                self._move("unloaded", ModelStatus(state="unloaded"))

    async def _live_with_child(
        self, request: LoadRequest, adapter: Backend, launch: EngineLaunch, outcome: asyncio.Future[ModelStatus]
    ) -> None:
        started = await start(self._settings.environment, adapter, request, launch)
        child, launch = started.child, started.launch
        vram = VramWatch()
        output = EngineOutput(self._settings.engine_log)
        exited = self._tasks.create_task(child.wait())
        engine = Engine(
            child=child,
            placement=started.placement,
            output=output,
            exited=exited,
            memory_kills=MemoryKills(),
        )
        pump = self._tasks.create_task(output.pump(child.stdout))
        watches = [self._tasks.create_task(run) for run in (vram.run(engine.pid), engine.memory_kills.run())]
        url = parse_url(launch.url)
        client = EngineClient(url, [url.host])
        self._engine = engine
        try:
            identity = await self._get_ready(request, launch, client, engine)
            self._serving = Serving(model=request.model, adapter=adapter, client=client, vram=vram)
            self._become_ready(adapter, launch.url, identity, outcome)
            await asyncio.wait([engine.exited])
            self._fail("died", engine.describe_end("while it served"))
        finally:
            for watch in watches:
                watch.cancel()
            client.close()
            await child.stop(term_s=STOP_SECONDS)
            await asyncio.wait([pump, engine.exited, *watches], timeout=STOP_SECONDS)
            started.remove_scratch()
            self._engine = None

    async def _live_with_remote(
        self, request: LoadRequest, adapter: Backend, remote: RemoteEngine, outcome: asyncio.Future[ModelStatus]
    ) -> None:
        url = parse_url(remote.url)
        addresses = await asyncio.to_thread(resolve, url, self._settings.url_policy)
        client = EngineClient(url, [str(address) for address in addresses], headers=remote.headers)
        try:
            try:
                async with asyncio.timeout(request.load_timeout_s):
                    await probe(client, remote.url)
                    properties = await ask_properties(client)
            except (EngineFailed, TimeoutError) as error:
                reason = str(error) or f"No answer within {request.load_timeout_s:g} s."
                raise LoadFailed(f"The endpoint {remote.url} does not work. {reason}") from error
            identity = identify_remote(remote.engine, request, properties)
            self._serving = Serving(model=request.model, adapter=adapter, client=client, vram=VramWatch())
            self._become_ready(adapter, remote.url, identity, outcome)
            await asyncio.Event().wait()
        finally:
            client.close()

    def _become_ready(
        self,
        adapter: Backend,
        url: str,
        identity: EngineIdentity,
        outcome: asyncio.Future[ModelStatus],
    ) -> None:
        status = replace(
            self._status,
            engine_url=url,
            measured_at=adapter.measured_at,
            engine=identity,
        )
        self._move("loaded", status)
        if not outcome.done():
            outcome.set_result(self._status)

    async def _get_ready(
        self, request: LoadRequest, launch: EngineLaunch, client: EngineClient, engine: Engine
    ) -> EngineIdentity:
        """Wait for the engine, send the warm-up, and return its identity; files are hashed meanwhile."""
        hashes = self._tasks.create_task(hash_files(request.files))
        packages = self._tasks.create_task(self._packages(launch, engine.placement))
        try:
            async with asyncio.timeout(request.load_timeout_s):
                await wait_ready(client, launch, engine)
                if launch.warmup is not None:
                    await warm_up(client, launch.warmup)
                return identify_launched(
                    launch,
                    pid=engine.pid,
                    packages=await packages,
                    environment=engine.placement.environment,
                    weights_sha256=await hashes,
                    properties=await ask_properties(client),
                    variables=settings_of(self._settings.environment, given={*request.env, *launch.env}),
                )
        except TimeoutError as error:
            tail = engine.output.tail()
            raise LoadFailed(
                f"The engine was not ready within {request.load_timeout_s:g} s. {OUTPUT_FOLLOWS}\n{tail}",
                cure=LOAD_LONGER,
                code="load_timeout",
            ) from error
        except EngineFailed as error:
            await asyncio.wait([engine.exited], timeout=EXPLAIN_SECONDS)
            if engine.exited.done():
                raise engine.describe_end("before it was ready") from error
            raise LoadFailed(f"The engine does not work: {error}") from error
        finally:
            hashes.cancel()
            packages.cancel()

    async def _packages(self, launch: EngineLaunch, placement: Placement) -> Mapping[str, str]:
        if placement.packages is not None:
            return placement.packages
        python = self._settings.environment.python
        return await list_packages(python if launch.argv[0] == python else None)
