"""`pipeline serve`: a gateway for each model of a pipeline, and one whose engine asks them; until Ctrl-C."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.fetching import open_cache
from vlmhyperbench.cli.groups import SERVER, TARGET
from vlmhyperbench.cli.output import byte_teller, note, teller
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.registry import open_catalogue
from vlmhyperbench.cli.resolving import load_request
from vlmhyperbench.cli.serve import (
    Port,
    Seconds,
    print_served,
    read_key,
    require_gateway,
    served_by,
    until_signalled,
    wait_for_failure,
)
from vlmhyperbench.data.pipeline_memory import dropped_of, execution_here
from vlmhyperbench.data.sending import send_model
from vlmhyperbench.data.weights import cached_files
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.pipelines import AskedModel, asked_models, can_do_without
from vlmhyperbench.domain.targets import EndpointTarget, ModelTarget
from vlmhyperbench.environments.targets import prepared_target
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.errors import Unavailable, VlmHyperBenchError
from vlmhyperbench.registry.pipeline_targets import PinnedPipeline
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.served_pipelines import pin_served
from vlmhyperbench.secret_files import read_secrets
from vlmhyperbench.serving.plan import FILE, KEY_VARIABLE, ServedModel, ServingPlan
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.gateway import GatewayClient, GatewayOptions
from vlmhyperbench_sdk.free_memory import free_memory
from vlmhyperbench_sdk.gateway import LoadRequest

_IN_WORDS = {"persistent": "all at once", "sequential": "one after the other"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Starting:
    """How the gateways of the models are started."""

    settings: Settings
    key: str
    load_timeout_s: float
    output: OutputFlags
    allow_lossy: bool
    is_sequential: bool = False
    """Whether a model is unloaded once it is known that it can be loaded."""


def serve(
    name: str,
    /,
    *,
    load_timeout: Annotated[Seconds, Parameter(group=TARGET)] = 300.0,
    allow_lossy: Annotated[bool, Parameter(group=TARGET, negative=())] = False,
    host: Annotated[str, Parameter(group=SERVER)] = "127.0.0.1",
    port: Annotated[Port, Parameter(group=SERVER)] = 0,
    api_key_env: Annotated[str | None, Parameter(group=SERVER)] = None,
    data_root: Annotated[Path | None, Parameter(group=SERVER)] = None,
    output: OutputFlags = TEXT,
) -> int:
    """Serve a pipeline like one model at an OpenAI-compatible URL until Ctrl-C; no stack is needed.

    Its models are loaded at once if they fit together, else one after the other for each question, unless its
    execution_mode says which. The URL and the key are printed as soon as all have been loaded.

    Args:
        name: Registered pipeline.
        host: Address to listen on. Clients need the key; the connection is not encrypted.
        port: Port to listen on; 0 chooses a free one.
        api_key_env: Name of the environment variable that contains the key for clients; by default a new key is
            generated and printed.
        data_root: Folder whose images requests may name by their paths; without it, requests must contain the images.
        load_timeout: Seconds after which starting an engine counts as failed.
        allow_lossy: Leave optional models out where the others then stay loaded together, as execution_mode: persistent
            asks for.
        output: How the output is printed.
    """
    require_gateway("pipeline serve")
    settings = Settings.load()
    own_key = read_key(api_key_env) if api_key_env is not None else None
    pinned = pin_served(open_catalogue(), InstalledPlugins(adapters=settings.engine_environment.adapters), name)
    options = GatewayOptions(
        environment=settings.engine_environment,
        log=settings.logs_dir / "serve-pipeline.log",
        host=host,
        port=port,
        data_root=data_root.absolute() if data_root is not None else None,
        engine_log=settings.logs_dir / "serve-pipeline-engine.log",
    )
    starting = _Starting(
        settings=settings,
        key=secrets.token_urlsafe(32),
        load_timeout_s=load_timeout,
        output=output,
        allow_lossy=allow_lossy,
    )
    return asyncio.run(_serve(pinned, starting, options, own_key))


async def _serve(pinned: PinnedPipeline, starting: _Starting, options: GatewayOptions, own_key: str | None) -> int:
    async with until_signalled() as signalled, AsyncExitStack() as stack:
        ended = asyncio.create_task(signalled.wait())
        loading = asyncio.create_task(_start(pinned, starting, options, own_key, stack))
        await asyncio.wait([loading, ended], return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            loading.cancel()
            await asyncio.wait([loading])
            return exits.OK
        failing = {
            asyncio.create_task(wait_for_failure(gateway, stays_loaded=stays_loaded)): name
            for name, gateway, stays_loaded in await loading
        }
        await asyncio.wait([*failing, ended], return_when=asyncio.FIRST_COMPLETED)
        failed = next((task for task in failing if task.done()), None)
        if failed is not None and not ended.done():
            cure = f"Read the logs in {starting.settings.logs_dir}, then start the command again."
            raise Unavailable(f"{failing[failed]} has failed: {await failed}", cure=cure, code="engine_failed")
        for task in failing:
            task.cancel()
        note("Stopping the models …", starting.output)
    return exits.OK


async def _start(
    pinned: PinnedPipeline,
    starting: _Starting,
    options: GatewayOptions,
    own_key: str | None,
    stack: AsyncExitStack,
) -> list[tuple[str, GatewayClient, bool]]:
    """Load the models, then the pipeline, and print where it is; the gateways end with the stack.

    Returns them all, each after its model's name and with whether that stays loaded.
    """
    started: dict[str, GatewayClient] = {}
    names: dict[str, str] = {}
    models: list[ServedModel] = []
    execution, held = await asyncio.to_thread(
        execution_here,
        pinned.target,
        open_cache(),
        margin=starting.settings.memory_margin,
        allow_lossy=starting.allow_lossy,
    )
    note(f"Models are loaded {_IN_WORDS[execution.mode]}: {execution.why}.", starting.output)
    starting = replace(starting, is_sequential=execution.mode == "sequential")
    if not (await asyncio.to_thread(free_memory)).devices:
        held = {}  # what an engine holds of the machine's memory is seen while it is loaded
    unusable = dropped_of(pinned.target, execution)
    for name in execution.dropped:
        note(f"{name} is left out, so that the others stay loaded together.", starting.output)
    for asked in asked_models(pinned.target):
        digest = digest_of(asked.model.target)
        if digest not in started and digest not in unusable:
            try:
                names[digest] = asked.model.name
                started[digest] = await stack.enter_async_context(_model(asked, starting, no=len(started)))
            except VlmHyperBenchError as error:
                if not can_do_without(pinned.target, digest):
                    raise
                unusable.add(digest)
                note(f"{asked.model.name} is left out: {error}", starting.output)
        if digest in started and asked.role != "repair":
            model = _served_model(pinned, asked, started[digest].base_url)
            if starting.is_sequential:
                load = await asyncio.to_thread(_load_of, asked.model.target, starting)
                model = model.model_copy(update={"load": asdict(load), "held_bytes": held.get(digest) or 0})
            models.append(model)
    plan = ServingPlan(target=pinned.target, models=tuple(models))
    folder = stack.enter_context(TemporaryDirectory(prefix="vlmhb-pipeline-"))
    file = Path(folder) / "plan.json"
    await asyncio.to_thread(file.write_text, plan.model_dump_json(), encoding="utf-8")
    request = LoadRequest(
        model=pinned.target.pipeline,
        backend_class="pipeline",
        files={FILE: str(file)},
        env={KEY_VARIABLE: starting.key},
        load_timeout_s=starting.load_timeout_s,
    )
    gateway = await GatewayClient.start(options, key=own_key)
    stack.push_async_callback(gateway.close)
    print_served(served_by(await gateway.load(request), gateway, own_key), starting.output)
    stays_loaded = not starting.is_sequential
    return [
        *((names[digest], each, stays_loaded) for digest, each in started.items()),
        (pinned.target.pipeline, gateway, True),
    ]


def _served_model(pinned: PinnedPipeline, asked: AskedModel, url: str) -> ServedModel:
    own = pinned.own[asked.key].model_dump(mode="json", exclude_unset=True)
    return ServedModel(stage=asked.stage.id, merges=asked.role == "merge", name=asked.model.name, url=url, own=own)


@asynccontextmanager
async def _model(asked: AskedModel, starting: _Starting, *, no: int) -> AsyncIterator[GatewayClient]:
    """Start the gateway of a model in the environments of its target, or that of an endpoint, and load it."""
    target, settings, output = asked.model.target, starting.settings, starting.output
    files = target.files if isinstance(target, ModelTarget) else ()
    async with AsyncExitStack() as held:
        held.enter_context(open_cache().in_use(cached_files(files)))
        request = await asyncio.to_thread(_load_of, target, starting)
        tell = teller(output, target.backend_class)
        ready = await held.enter_async_context(
            prepared_target(target, settings.engine_environment, Workshop.of(settings), tell=tell)
        )
        sent = byte_teller(output, target.backend_class)
        await send_model(ready.rented, files, request.files, settings, sent=sent)
        options = GatewayOptions(
            environment=ready.environment,
            log=settings.logs_dir / f"serve-model-{no}.log",
            policy=replace(settings.url_policy, allow_loopback=True),  # whoever serves may reach their own machine
            engine_log=settings.logs_dir / f"serve-model-{no}-engine.log",
            lock_fds=ready.lock_fds,
        )
        note(f"Loading {target.served_name} …", output)
        gateway = await GatewayClient.start(options, key=starting.key)
        held.push_async_callback(gateway.close)
        await gateway.load(request)
        if starting.is_sequential:
            await gateway.unload()
        yield gateway


def _load_of(target: ModelTarget | EndpointTarget, starting: _Starting) -> LoadRequest:
    """Return the request that loads a model, or says where an endpoint is and by which secrets it is asked.

    Raises:
        NotFound: a file or a secret does not exist.
        Conflict: a file does not match its registered hash.
    """
    if isinstance(target, ModelTarget):
        return load_request(target, open_cache(), starting.load_timeout_s)
    return LoadRequest(
        model=target.model_name,
        backend_class=target.backend_class,
        engine_params={**target.engine_params, "url": target.endpoint},
        env=read_secrets(starting.settings.secrets_dir, target.secret_names),
        load_timeout_s=starting.load_timeout_s,
    )
