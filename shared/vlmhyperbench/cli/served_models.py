"""Load one model of a pipeline that is served, in the environments of its target, and as small as it must be."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from vlmhyperbench.cli.fetching import open_cache
from vlmhyperbench.cli.kept_gateways import KeptGateway
from vlmhyperbench.cli.output import byte_teller, note, teller
from vlmhyperbench.cli.output_flags import OutputFlags
from vlmhyperbench.cli.resolving import load_request
from vlmhyperbench.data.ladders import open_ladder
from vlmhyperbench.data.sending import send_model
from vlmhyperbench.data.usable_memory import less_reserve
from vlmhyperbench.data.weights import cached_files, files_for_engine
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.environments import RentedSpec
from vlmhyperbench.domain.fallbacks import Fallback, MachineMemory
from vlmhyperbench.domain.pipelines import AskedModel
from vlmhyperbench.domain.targets import EndpointTarget, ModelTarget
from vlmhyperbench.environments.targets import prepared_target
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.secret_files import read_secrets
from vlmhyperbench.serving.memory_back import free_bytes
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.fitted_loads import load_fitted
from vlmhyperbench.worker.gateway import GatewayClient, GatewayOptions
from vlmhyperbench_sdk.free_memory import FreeMemory, free_memory
from vlmhyperbench_sdk.gateway import LoadRequest


@dataclass(slots=True, kw_only=True)
class ServingRoom:
    """The memory in which the models of a pipeline are loaded."""

    mode: Literal["persistent", "sequential"]
    measure: Callable[[], FreeMemory]
    """Returns the memory that is free now."""
    needs: Mapping[str, int | None]
    """Digest of a model → bytes that it needs, with its margin; None if unknown."""
    have_bytes: int
    """What all of them together may use."""
    held_bytes: int = 0
    """What the loaded ones need: of their files' pages some may count as free until a prompt touches them."""

    def note_loaded(self, digest: str) -> None:
        """Note that a model stays loaded."""
        if self.mode == "persistent":
            self.held_bytes += self.needs.get(digest) or 0

    def usable(self) -> MachineMemory:
        """Return what the next load may use."""
        free = less_reserve(self.measure())
        host = free.host_bytes if free.host_bytes is not None else sys.maxsize
        if free.devices is None or (free.devices and free.device_bytes is None):
            return MachineMemory(devices=(sys.maxsize,), host=host)  # nothing is known that could be given up for
        if not free.devices or free.device_bytes is None:
            return MachineMemory(devices=(), host=min(host, max(self.have_bytes - self.held_bytes, 0)))
        return MachineMemory(devices=(free.device_bytes // free.devices,) * free.devices, host=host)


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """How the gateways of the models are started."""

    settings: Settings
    key: str
    load_timeout_s: float
    output: OutputFlags
    allow_lossy: bool
    measure: Callable[[], FreeMemory] = field(default=free_memory)
    """Returns the memory of this machine that is free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedModel:
    """A model that can be asked."""

    gateway: KeptGateway
    request: LoadRequest
    """How it is loaded."""
    steps: Sequence[Fallback] = ()
    """What was given up so that it fits."""


@asynccontextmanager
async def started_model(
    asked: AskedModel, starting: Starting, room: ServingRoom, *, no: int
) -> AsyncIterator[StartedModel]:
    """Start the gateway of a model in the environments of its target, or that of an endpoint, and load it.

    A sequential pipeline's model is unloaded again, since it is known now that it can be loaded.

    Raises:
        DoesNotFit: nothing is left to give up.
        NotFound: a file or a secret does not exist.
        Conflict: a file does not match its registered hash.
        Unavailable: its engine does not start.
    """
    target, settings, output = asked.model.target, starting.settings, starting.output
    files = target.files if isinstance(target, ModelTarget) else ()
    async with AsyncExitStack() as held:
        held.enter_context(open_cache().in_use(cached_files(files)))
        request = await asyncio.to_thread(_load_of, target, starting)
        tell = teller(output, target.backend_class)
        ready = await held.enter_async_context(
            prepared_target(target, settings.engine_environment, Workshop.of(settings), tell=tell)
        )
        await send_model(ready.rented, files, request.files, settings, sent=byte_teller(output, target.backend_class))
        options = GatewayOptions(
            environment=ready.environment,
            log=settings.logs_dir / f"serve-model-{no}.log",
            policy=replace(settings.url_policy, allow_loopback=True),  # whoever serves may reach their own machine
            engine_log=settings.logs_dir / f"serve-model-{no}-engine.log",
            lock_fds=ready.lock_fds,
        )
        note(f"Loading {target.served_name} …", output)
        kept = KeptGateway(
            name=asked.model.name, options=options, client=await GatewayClient.start(options, key=starting.key)
        )
        held.push_async_callback(kept.close)
        request, steps = await _load(kept.client, asked, request, starting, room, held)
        for step in steps:
            note(f"{asked.model.name} is loaded smaller so that it fits: {in_words(step)}.", output)
        room.note_loaded(digest_of(target))
        if room.mode == "sequential":
            await kept.client.unload()
        else:
            kept.request = request
        yield StartedModel(gateway=kept, request=request, steps=steps)


async def _load(
    gateway: GatewayClient,
    asked: AskedModel,
    request: LoadRequest,
    starting: Starting,
    room: ServingRoom,
    held: AsyncExitStack,
) -> tuple[LoadRequest, Sequence[Fallback]]:
    """Load a model, and return how it was loaded and what was given up for that."""
    target, cache = asked.model.target, open_cache()
    is_here = isinstance(target, ModelTarget) and not isinstance(target.environment, RentedSpec)
    ladder = None
    if is_here:
        devices = len((await asyncio.to_thread(room.usable)).devices)
        ladder = await asyncio.to_thread(
            open_ladder,
            target,
            cache,
            room.usable,
            devices=max(devices, 1),
            allow_lossy=starting.allow_lossy,
            smaller=asked.model.smaller,
        )
    if ladder is None:
        await gateway.load(request)
        return request, ()

    async def files_of(substitute: ModelTarget) -> dict[str, str]:
        held.enter_context(cache.in_use(cached_files(substitute.files)))
        return await asyncio.to_thread(files_for_engine, substitute.files, cache)

    loaded = await load_fitted(gateway, request, ladder, files_of=files_of, free=free_bytes)
    return loaded.request, loaded.fitted.steps


def in_words(step: Fallback) -> str:
    """Return a step in one line."""
    return f"{step.rung}, {step.before} → {step.after}" + (", which may cost quality" if step.is_lossy else "")


def _load_of(target: ModelTarget | EndpointTarget, starting: Starting) -> LoadRequest:
    """Return the request that loads a model, or says where an endpoint is and by which secrets it is asked."""
    if isinstance(target, ModelTarget):
        return load_request(target, open_cache(), starting.load_timeout_s)
    return LoadRequest(
        model=target.model_name,
        backend_class=target.backend_class,
        engine_params={**target.engine_params, "url": target.endpoint},
        env=read_secrets(starting.settings.secrets_dir, target.secret_names),
        load_timeout_s=starting.load_timeout_s,
    )
