"""The states of registered GGUF models: their files on this machine, what users have asked, and what workers say."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from uuid import UUID

from vlmhyperbench.data.estimating import shown_estimate
from vlmhyperbench.data.fetching import open_cache
from vlmhyperbench.data.gguf_status import GgufStatus
from vlmhyperbench.data.registered_gguf import BACKEND, registered_status, unregistered_status
from vlmhyperbench.db import held_models, memory, workers
from vlmhyperbench.db.views import HeldModelView
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.fallbacks import LoadBytes
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.errors import Conflict, NotFound
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.choices import ModelChoice
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.targets import resolve_target
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.wire.models import MeasuredMemory, ModelEstimate, ModelStatus
from vlmhyperbench.wire.shortages import MemoryShortage
from vlmhyperbench_api.security import Principal

_SHOWN = frozenset({"waiting", "loading", "loaded", "error"})
"""States of a held model that replace the status by its files."""


async def listed(runtime: Runtime, catalogue: Catalogue, project_id: str) -> list[ModelStatus]:
    """Return every registered GGUF model, then the GGUF files beside them that no entry uses."""
    async with runtime.database.transaction() as session:
        held = {model.name: model for model in await held_models.of_project(session, project_id)}
        names = {worker.id: worker.name for worker in await workers.page(session, after=None, limit=500)}
    cache = open_cache(runtime.settings)
    statuses = await asyncio.to_thread(lambda: [*registered_status(catalogue, cache), *unregistered_status(catalogue)])
    usable = [each.name for each in statuses if each.status == "available" and each.is_registered]
    measured = await _measured(runtime, catalogue, usable)
    return [
        _with_held(_by_files(status, measured.get(status.name)), held.get(status.name), names) for status in statuses
    ]


async def one(runtime: Runtime, catalogue: Catalogue, project_id: str, name: str) -> ModelStatus:
    """Return one model.

    Raises:
        NotFound: no GGUF model has the name.
    """
    _check_known(catalogue, name)
    return next(status for status in await listed(runtime, catalogue, project_id) if status.name == name)


async def load(
    runtime: Runtime, catalogue: Catalogue, principal: Principal, name: str, *, is_pinned: bool
) -> ModelStatus:
    """Ask a worker to load a model, pinned if the request or its entry says so.

    Raises:
        NotFound: no GGUF model has the name.
        Conflict: its files are missing or invalid (codes `model_missing`, `model_invalid`).
        InvalidInput: its entry cannot be used.
    """
    status = await one(runtime, catalogue, principal.project_id, name)
    if status.status in {"missing", "invalid"}:
        cure = f"Run `vlmhyperbench models fetch {name}` on the stack's machine, or correct its entry."
        raise Conflict(
            f"The model {name} is {status.status}: {status.reason}", cure=cure, code=f"model_{status.status}"
        )
    target = await asyncio.to_thread(_target, runtime, catalogue, name)
    async with runtime.database.transaction() as session:
        await held_models.ask_to_load(
            session,
            principal.project_id,
            name,
            target=target.model_dump(mode="json"),
            digest=digest_of(target),
            is_pinned=is_pinned or catalogue.models[name].pin,
            by=principal.name,
        )
    return await one(runtime, catalogue, principal.project_id, name)


async def unload(runtime: Runtime, catalogue: Catalogue, principal: Principal, name: str) -> ModelStatus:
    """Ask the worker of a model to unload it.

    Raises:
        NotFound: no GGUF model has the name.
        Conflict: nobody has asked to load it (code `not_loaded`).
    """
    _check_known(catalogue, name)
    async with runtime.database.transaction() as session:
        asked = await held_models.ask_to_unload(session, principal.project_id, name, by=principal.name)
    if asked is None:
        cure = "What a run has loaded is unloaded when another model needs its memory, or the worker ends."
        raise Conflict(f"Nobody has asked to load the model {name}.", cure=cure, code="not_loaded")
    return await one(runtime, catalogue, principal.project_id, name)


async def estimate(runtime: Runtime, catalogue: Catalogue, name: str) -> ModelEstimate:
    """Return what a model needs and what was measured.

    Raises:
        NotFound: no GGUF model has the name, or its files are not here (code `no_estimate`).
        InvalidInput: its entry cannot be used.
    """
    _check_known(catalogue, name)
    target = await asyncio.to_thread(_target, runtime, catalogue, name)
    estimated = await asyncio.to_thread(shown_estimate, target, open_cache(runtime.settings))
    if estimated is None:
        cure = f"Run `vlmhyperbench models fetch {name}` on the stack's machine."
        raise NotFound(f"The files of {name} are not on this machine, or invalid.", cure=cure, code="no_estimate")
    digest = digest_of(target)
    async with runtime.database.transaction() as session:
        known = (await memory.needs_of(session, [digest], margin=1.0)).get(digest)
    reserved = LoadBytes(device=estimated.device_bytes, host=estimated.host_bytes).with_margin
    peaks = known.peaks if known is not None else {}
    return ModelEstimate(
        model=name,
        backend=target.backend,
        device_bytes=estimated.device_bytes,
        host_bytes=estimated.host_bytes,
        source=estimated.source,
        margin_device_bytes=reserved.device,
        margin_host_bytes=reserved.host,
        parts=dict(estimated.parts),
        knobs=list(estimated.knobs),
        measured=[MeasuredMemory(device=device, bytes=peak) for device, peak in sorted(peaks.items())],
    )


async def _measured(runtime: Runtime, catalogue: Catalogue, names: Sequence[str]) -> dict[str, int]:
    """Return the most bytes that each model has used on any device, with the parameters of its entry."""

    def digests() -> dict[str, str]:
        found = {name: _found(runtime, catalogue, name)[0] for name in names}
        return {digest_of(target): name for name, target in found.items() if target is not None}

    known = await asyncio.to_thread(digests)
    async with runtime.database.transaction() as session:
        needs = await memory.needs_of(session, list(known), margin=1.0)
    return {known[digest]: max(need.peaks.values()) for digest, need in needs.items() if need.peaks}


def _check_known(catalogue: Catalogue, name: str) -> None:
    entry = catalogue.get("models", name)
    if BACKEND not in getattr(entry, "backends", ()):
        cure = "`vlmhyperbench models status` lists the GGUF models."
        raise NotFound(f"The model {name} is no GGUF model.", cure=cure, code="no_gguf_model")


def _target(runtime: Runtime, catalogue: Catalogue, name: str) -> ModelTarget:
    """Return the target that a run of the model without further parameters has."""
    target, references = _found(runtime, catalogue, name)
    if target is None:
        raise RegistryErrors.of(tuple(references.problems))
    return target


def _found(runtime: Runtime, catalogue: Catalogue, name: str) -> tuple[ModelTarget | None, References]:
    adapters = runtime.settings.engine_environment.adapters
    references = References(catalogue=catalogue, plugins=InstalledPlugins(adapters=adapters))
    target = resolve_target(references, ModelChoice(model=name, backend=BACKEND), None, ())
    return target if isinstance(target, ModelTarget) and not references.problems else None, references


def _by_files(status: GgufStatus, measured_bytes: int | None) -> ModelStatus:
    values = asdict(status) | {"file": Path(status.path).name or None, "measured_bytes": measured_bytes}
    return ModelStatus.model_validate({key: value for key, value in values.items() if key in ModelStatus.model_fields})


def _with_held(status: ModelStatus, held: HeldModelView | None, names: dict[UUID, str]) -> ModelStatus:
    if held is None or held.state not in _SHOWN:
        return status
    worker = names.get(held.worker_id) if held.worker_id is not None and held.state != "waiting" else None
    shortage = MemoryShortage.model_validate(held.shortage) if held.shortage is not None else None
    shown = {
        "status": held.state,
        "reason": held.reason,
        "shortage": shortage,
        "worker": worker,
        "is_pinned": held.is_pinned,
    }
    return status.model_copy(update=shown)
