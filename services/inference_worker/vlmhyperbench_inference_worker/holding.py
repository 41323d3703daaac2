"""Load and unload models that users ask for, while the worker has no job: a load would disturb what is measured."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from uuid import uuid4

from pydantic import TypeAdapter

from vlmhyperbench.data.estimating import estimate_memory
from vlmhyperbench.data.fetching import open_cache
from vlmhyperbench.db import claims, held_models, memory
from vlmhyperbench.db.views import HeldModelView
from vlmhyperbench.domain.needs import devices_of, in_gib
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.environments.targets import prepared_target
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.errors import DoesNotFit, Unavailable, VlmHyperBenchError
from vlmhyperbench.logs import get_logger
from vlmhyperbench.worker.claims import WorkerContext
from vlmhyperbench.worker.gateway import GatewayOptions
from vlmhyperbench_inference_worker.bench import Bench
from vlmhyperbench_inference_worker.room import Room, ladder_of, remember_peak
from vlmhyperbench_inference_worker.serving import Serving, WantedTarget
from vlmhyperbench_inference_worker.watch import Watch
from vlmhyperbench_sdk.protocols import MemoryEstimate
from vlmhyperbench_sdk.types import JsonObject

LOAD_TIMEOUT_S: Final = 300.0

_LOG = get_logger(__name__)
_TARGET: Final = TypeAdapter(ModelTarget)


@dataclass(frozen=True, slots=True)
class _Settled:
    """What came of a request: the state of the model, why, and what memory it lacked."""

    state: str
    reason: str | None = None
    shortage: JsonObject | None = None


async def hold_models(context: WorkerContext, bench: Bench) -> None:
    """Take requests one after another, until it is cancelled."""
    while True:
        done = False
        if not bench.fleet.is_busy:
            try:
                async with bench.fleet.asked:
                    done = not bench.fleet.is_busy and await _take_one(context, bench)
            except Unavailable as error:
                _LOG.warning("held.not_read", reason=str(error))
        if not done:
            await asyncio.sleep(context.settings.timers.poll_s)


async def _take_one(context: WorkerContext, bench: Bench) -> bool:
    database, worker_id = context.runtime.database, context.worker_id
    async with database.transaction() as session:
        taken = await held_models.take(session, worker_id, bench.fleet.resident)
    if taken is None:
        return False
    settled = await (_loaded(context, bench, taken) if taken.wanted == "loaded" else _unloaded(bench, taken))
    async with bench.fleet.recording, database.transaction() as session:
        await claims.set_resident(session, worker_id, bench.fleet.resident)
        await held_models.settle(session, taken, worker_id, settled.state, settled.reason, settled.shortage)
    _LOG.info("held", model=taken.name, state=settled.state, reason=settled.reason)
    await context.runtime.bus.push_wake()
    return True


async def _loaded(context: WorkerContext, bench: Bench, taken: HeldModelView) -> _Settled:
    """Load a model, and return its state with the reason of a failure, or what was given up so that it fits."""
    settings, user = context.settings, uuid4()
    target, cache = _TARGET.validate_python(taken.target), open_cache(settings)
    log = settings.home / "held" / settings.worker_name / f"{taken.name}.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        estimate = await asyncio.to_thread(estimate_memory, target, cache)
        if estimate is not None:  # by it the scheduler knows what a pinned model leaves of the device
            async with context.runtime.database.transaction() as session:
                await memory.write_estimates(session, {taken.target_digest: estimate})
        room = _room(target, bench, estimate)
        reserved = partial(bench.fleet.reserved_beside, {taken.target_digest})
        ladder = await asyncio.to_thread(ladder_of, target, room, cache, reserved=reserved)
        wanted = WantedTarget(
            digest=taken.target_digest, target=target, load_timeout_s=LOAD_TIMEOUT_S, ladder=ladder, cache=cache
        )
        plain = replace(settings.engine_environment, variables={**context.label, **room.visible(bench.devices)})
        async with (
            prepared_target(target, plain, Workshop.of(settings)) as ready,
            Watch(room.devices) as watch,
        ):
            options = GatewayOptions(
                environment=ready.environment,
                log=log.with_suffix(".gateway.log"),
                policy=settings.url_policy,
                engine_log=log,
                lock_fds=(*context.lock_fds, *ready.lock_fds),
            )
            start_ns = time.monotonic_ns()
            serving = await bench.fleet.acquire(wanted, options, room, user)
            serving.prepared = ready
            if serving.memory_before_bytes is None and serving.engine_log == log:  # it was not loaded before
                serving.memory_before_bytes = watch.min_accelerator_memory(start_ns)
    except (VlmHyperBenchError, OSError) as error:
        return _Settled("error", str(error), error.facts if isinstance(error, DoesNotFit) else None)
    finally:
        bench.fleet.release(user)
    bench.fleet.pin(taken.target_digest, is_pinned=taken.is_pinned)
    try:
        await _remember(context, bench, taken, room, watch, serving)
    except VlmHyperBenchError as error:  # the model is loaded all the same
        _LOG.warning("held.not_measured", name=taken.name, reason=str(error))
    steps = serving.fitted.steps if serving.fitted is not None else ()
    return _Settled("loaded", "; ".join(f"{step.rung}: {step.before} → {step.after}" for step in steps) or None)


async def _remember(
    context: WorkerContext, bench: Bench, taken: HeldModelView, room: Room, watch: Watch, serving: Serving
) -> None:
    """Store what a model has taken, as after a run: no job runs meanwhile, so that it is alone unless others stay."""
    watch.engine_pid = serving.engine.pid if serving.engine is not None else None
    watch.take_sample()
    await remember_peak(
        context.runtime.database,
        taken.target_digest,
        replace(room, is_alone=True),
        watch,
        serving,
        resident=bench.fleet.resident,
    )


async def _unloaded(bench: Bench, taken: HeldModelView) -> _Settled:
    """Unload a model, wait until its memory is back, and return its state with what came back."""
    unloaded = await bench.fleet.unload(taken.target_digest)
    if unloaded is None:
        return _Settled("unloaded")
    return _Settled("unloaded", f"{in_gib(unloaded.back)} of about {in_gib(unloaded.held)} are free again.")


def _room(target: ModelTarget, bench: Bench, estimate: MemoryEstimate | None) -> Room:
    """Return the first devices of the worker, as many as the target spreads over, and what it takes of them."""
    devices = tuple(bench.devices[: devices_of(target)])
    taken = {}
    for device in devices:
        host = estimate.host_bytes if estimate is not None and device.kind == "cpu" else 0
        needed = (estimate.device_bytes + host) // len(devices) if estimate is not None else device.memory_bytes
        taken[device.no] = min(needed, device.memory_bytes)
    return Room(devices=devices, reserved_bytes=taken, is_alone=False)
