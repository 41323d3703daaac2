"""Bring up the target of a job: read its secrets, load it unless it is loaded, record which engine it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from vlmhyperbench.certifying.certificates import CertificateStore, require, subject_of
from vlmhyperbench.data.fetching import open_cache
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.db import reservations
from vlmhyperbench.db.claims import ClaimRecord
from vlmhyperbench.domain.execution import Execution, Residency
from vlmhyperbench.domain.judging import is_judge, judging_of
from vlmhyperbench.domain.next_use import next_uses
from vlmhyperbench.domain.specs import EndpointTarget, ImportTarget, ModelTarget, PipelineTarget
from vlmhyperbench.environments.drivers import check_driver
from vlmhyperbench.environments.programs import TIMEOUT_S as INSTALLER_TIMEOUT_S
from vlmhyperbench.environments.targets import PreparedTarget, prepared_target
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.errors import Conflict
from vlmhyperbench.logs import get_logger, hide
from vlmhyperbench.monitoring.recording import counted
from vlmhyperbench.monitoring.tracing import span
from vlmhyperbench.secret_files import read_secrets
from vlmhyperbench.summaries.manifest import EXECUTION, FALLBACKS
from vlmhyperbench.worker.claims import ClaimedJob, WorkerContext
from vlmhyperbench.worker.gateway import GatewayOptions, is_rented
from vlmhyperbench.worker.machine import machine
from vlmhyperbench_inference_worker.bench import Bench
from vlmhyperbench_inference_worker.declared import check_declared
from vlmhyperbench_inference_worker.evidence import ClaimFolder, gateway_log_of
from vlmhyperbench_inference_worker.execution import residency_of
from vlmhyperbench_inference_worker.room import Room, ladder_of, needs_more
from vlmhyperbench_inference_worker.serving import Serving, WantedTarget
from vlmhyperbench_inference_worker.watch import Watch
from vlmhyperbench_inference_worker.weights import bring_weights, send_weights
from vlmhyperbench_inference_worker.work import Work
from vlmhyperbench_sdk.types import JsonValue

_LOG = get_logger(__name__)


async def bring_up(
    job: ClaimedJob, work: Work, bench: Bench, watch: Watch, folder: ClaimFolder, room: Room
) -> Serving | None:
    """Return the target of a job, loaded and ready; None if it needs more memory than its job has reserved.

    Every job reads the secrets, because their names or their files may have changed since the target was loaded.

    Raises:
        Conflict: the run's answers come from a file; the worker's GPUs are only declared; a model file, the adapter's
            code or a package's folder is not the one that was pinned; the registry requires a certificate that this
            machine does not have, or the engine's packages a newer driver.
        InvalidInput: a parameter is wrong, the adapter is not allowed, others may read the file of a secret, or the
            requirements of the engine's environment cannot be resolved or installed.
        NotFound: a model file, a secret, or the version of Python of the environment is missing.
        Denied: the hub refuses the model, or the repository of a package wants credentials.
        Unavailable: gateway or engine did not come up, its environment cannot be prepared now, or the hub does not
            answer.
        Fenced: the claim is lost.
    """
    bench.standby.refill()  # the load generator starts while the target is loaded
    target, load_timeout_s = work.spec.target, work.spec.limits.load_timeout_s
    if isinstance(target, ImportTarget | PipelineTarget):
        raise Conflict("The run's answers come from a file, or from models of a pipeline; there is no model to load.")
    secrets = await asyncio.to_thread(read_secrets, job.settings.secrets_dir, secret_names(work))
    hide(secrets.values())  # in every line that this process logs, and every message that it stores, from now on
    cache = open_cache(job.settings)
    if isinstance(target, ModelTarget):
        check_declared(target, bench.devices)
        with span("bring weights"):
            await bring_weights(job, target, cache)
    execution, residency = await residency_of(job, work, room, cache, bench.fleet)
    if await needs_more(job, target, room, cache):
        return None
    wanted = await _wanted(job, work, target, bench, room, cache, secrets, residency)
    this_machine, start_ns = machine(bench.devices), time.monotonic_ns()
    serving = await bench.fleet.loaded(wanted, room, job.claim_id)
    if serving is not None and serving.prepared is not None:  # preparing an environment may mean to rent a machine
        ready = serving.prepared
        certificate = _certificate(job, target, ready.used, this_machine)
    else:
        async with target_environment(job, target, room.visible(bench.devices)) as ready:
            check_driver(ready.used, this_machine)
            certificate = _certificate(job, target, ready.used, this_machine)
            if ready.rented is not None and isinstance(target, ModelTarget):
                await send_weights(job, target, cache, ready)
            options, start_ns = _gateway_options(job.context, ready, folder.engine_log), time.monotonic_ns()
            with (
                job.extended_stall_limit(load_timeout_s),
                span("start engine"),
                counted("target_loads_total", duration="target_load_duration_seconds"),
            ):
                serving = await bench.fleet.acquire(
                    wanted, options, room, job.claim_id, wanted_next=partial(_wanted_next, job)
                )
        serving.prepared = ready
    engine = serving.engine
    pid = engine.pid if engine is not None and not is_rented(engine) else None
    if serving.engine_log == folder.engine_log and pid is not None:
        serving.memory_before_bytes = watch.min_accelerator_memory(start_ns)
    folder.note_engine(serving)
    watch.engine_pid = pid
    record = _record(
        serving, _environment(ready, certificate, serving, execution), this_machine, cores=bench.ground.cores
    )
    async with bench.fleet.recording:
        await job.record_target(bench.fleet.resident, record)
    return serving


async def _wanted(
    job: ClaimedJob,
    work: Work,
    target: ModelTarget | EndpointTarget,
    bench: Bench,
    room: Room,
    cache: ModelCache,
    secrets: Mapping[str, str],
    residency: Residency,
) -> WantedTarget:
    """Return what is to be loaded, and with which smaller settings where the memory does not suffice.

    Raises:
        DoesNotFit: it has run out of memory with the last of them too.
    """
    limits = work.spec.limits
    ladder = await asyncio.to_thread(
        ladder_of,
        target,
        room,
        cache,
        allow_lossy=limits.allow_lossy,
        task=work.tokens,
        smaller=work.spec.smaller,
        reserved=partial(bench.fleet.reserved_beside, {work.spec.target_digest}),
    )
    ran_out = bench.fleet.ran_out(job.job.id)
    if ladder is not None and len(ran_out) > 1:
        raise ladder.ran_out(ran_out[-1])
    return WantedTarget(
        digest=work.spec.target_digest,
        target=target,
        secrets=secrets,
        load_timeout_s=limits.load_timeout_s,
        ladder=ladder,
        ran_out=ran_out[-1] if ran_out else None,
        residency=residency,
        cache=cache,
    )


def _record(
    serving: Serving,
    environment: dict[str, JsonValue] | None,
    this_machine: Mapping[str, JsonValue],
    *,
    cores: Collection[int] | None,
) -> ClaimRecord:
    """Return what the claim records of the engine and where it runs."""
    engine, before_bytes = serving.engine, serving.memory_before_bytes
    return ClaimRecord(
        engine=asdict(engine) if engine else None,
        environment=environment,
        machine={**this_machine, "rented": dict(engine.environment)} if engine and is_rented(engine) else this_machine,
        measured_at=serving.measured.through,
        cores=cores,
        resources=None if before_bytes is None else {"accelerator_memory_before_load_bytes": before_bytes},
    )


def _environment(
    ready: PreparedTarget, certificate: dict[str, JsonValue] | None, serving: Serving, execution: Execution | None
) -> dict[str, JsonValue] | None:
    """Return what the claim records of the environment, how models are loaded, and what was given up for that."""
    recorded: dict[str, JsonValue] = {**ready.used, "certificate": certificate} if ready.used else {}
    steps = (
        *(execution.steps if execution is not None else ()),
        *(serving.fitted.steps if serving.fitted is not None else ()),
    )
    if steps:
        recorded[FALLBACKS] = [dict(asdict(step)) for step in steps]
    if execution is not None:
        recorded[EXECUTION] = execution.recorded
    return recorded or None


def secret_names(work: Work) -> list[str]:
    """Name the secrets that the target of a job may know: the run's, and those that the target itself names.

    An endpoint that judges, or is a member of a pipeline, is given only the secrets that it names. A secret that a
    judge names belongs to that judge: another endpoint is given it only if it names it as well.
    """
    spec, target = work.spec, work.spec.target
    is_remote = isinstance(target, EndpointTarget)
    if work.asks != "run" and is_remote:
        return target.secret_names
    judges = [judging_of(metric).target for metric in spec.metrics if is_judge(metric)] if is_remote else []
    withheld = {name for judge in judges for name in judge.secret_names}
    return list(dict.fromkeys([*(name for name in spec.secrets if name not in withheld), *target.secret_names]))


@asynccontextmanager
async def target_environment(
    job: ClaimedJob, target: ModelTarget | EndpointTarget, variables: Mapping[str, str]
) -> AsyncIterator[PreparedTarget]:
    """Yield where gateway and engine of a target run; a gateway holds it after the block.

    Building it does not count as loading, and the job does not stall meanwhile. `variables` are given to every process.

    Raises:
        VlmHyperBenchError: it cannot be prepared, see `prepared_target`.
    """
    settings = job.settings
    async with AsyncExitStack() as held:
        with job.preparing("environment", 2 * INSTALLER_TIMEOUT_S) as tell:
            ready = await held.enter_async_context(
                prepared_target(
                    target,
                    replace(settings.engine_environment, variables={**job.context.label, **variables}),
                    Workshop.of(settings),
                    tell=tell,
                )
            )
        if ready.lock_fds:
            _LOG.info("environment", job_id=str(job.job.id), step="ready", python=ready.environment.python)
        yield ready


async def _wanted_next(job: ClaimedJob, digests: Sequence[str]) -> Sequence[str]:
    """Return which loaded targets are used again: by jobs that are due, then by later steps of this job's plan."""
    async with job.runtime.database.transaction() as session:
        due = await reservations.wanted_next(session, digests)
        plan = await reservations.plan_of(session, job.run_id)
    return [digest for digest in next_uses(due, plan) if digest in digests]


def _certificate(
    job: ClaimedJob,
    target: ModelTarget | EndpointTarget,
    used: Mapping[str, JsonValue] | None,
    this_machine: Mapping[str, JsonValue],
) -> dict[str, JsonValue] | None:
    """Return the certificate of exactly this environment on this machine; None if there is none and none is needed.

    Raises:
        Conflict: the registry requires one that this machine does not have.
    """
    if used is None or not isinstance(target, ModelTarget):
        return None
    subject = subject_of(target, used, this_machine)
    return require(target, subject, CertificateStore(job.settings.certificates_dir).find(subject))


def _gateway_options(context: WorkerContext, ready: PreparedTarget, engine_log: Path) -> GatewayOptions:
    """Return how the worker starts gateways; engines and body writers get the same environment as the gateway."""
    settings = context.settings
    return GatewayOptions(
        environment=ready.environment,
        log=gateway_log_of(engine_log),
        policy=settings.url_policy,
        engine_log=engine_log,
        lock_fds=(*context.lock_fds, *ready.lock_fds),
    )
