"""`pipeline serve`: a gateway for each model of a pipeline, and one whose engine asks them; until Ctrl-C."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.fetching import open_cache
from vlmhyperbench.cli.groups import SERVER, TARGET
from vlmhyperbench.cli.kept_gateways import KeptGateway
from vlmhyperbench.cli.output import note
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.registry import open_catalogue
from vlmhyperbench.cli.serve import (
    Port,
    Seconds,
    print_served,
    read_key,
    require_gateway,
    served_by,
    until_signalled,
)
from vlmhyperbench.cli.served_models import ServingRoom, StartedModel, Starting, started_model
from vlmhyperbench.data.pipeline_memory import dropped_of, execution_here
from vlmhyperbench.data.usable_memory import less_reserve
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.execution import Execution
from vlmhyperbench.domain.fallbacks import Fallback
from vlmhyperbench.domain.pipelines import AskedModel, asked_models, can_do_without
from vlmhyperbench.domain.refusals import ALLOW_LOSSY, named_by
from vlmhyperbench.errors import DoesNotFit, VlmHyperBenchError
from vlmhyperbench.registry.pipeline_targets import PinnedPipeline
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.served_pipelines import pin_served
from vlmhyperbench.serving.plan import FILE, KEY_VARIABLE, ServedModel, ServingPlan
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.gateway import GatewayClient, GatewayOptions
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.types import JsonValue

_IN_WORDS = {"persistent": "all at once", "sequential": "one after the other"}
_FLAG = "--allow-lossy"


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
    execution_mode says which; one that does not fit is loaded smaller, as in a run. The URL and the key are printed as
    soon as all have been loaded. A model whose engine ends is loaded again.

    Args:
        name: Registered pipeline.
        host: Address to listen on. Clients need the key; the connection is not encrypted.
        port: Port to listen on; 0 chooses a free one.
        api_key_env: Name of the environment variable that contains the key for clients; by default a new key is
            generated and printed.
        data_root: Folder whose images requests may name by their paths; without it, requests must contain the images.
        load_timeout: Seconds after which starting an engine counts as failed.
        allow_lossy: Where models do not fit, also give up what may cost quality: a KV cache in q8_0 or q4_0, fewer
            tokens for an image, a smaller quantisation, and optional models where the others then stay loaded together.
        output: How the output is printed.
    """
    require_gateway("pipeline serve")
    settings = Settings.load()
    own_key = read_key(api_key_env) if api_key_env is not None else None
    plugins = InstalledPlugins(adapters=settings.engine_environment.adapters)
    pinned = pin_served(open_catalogue(), plugins, name, allow_lossy=allow_lossy)
    options = GatewayOptions(
        environment=settings.engine_environment,
        log=settings.logs_dir / "serve-pipeline.log",
        host=host,
        port=port,
        data_root=data_root.absolute() if data_root is not None else None,
        engine_log=settings.logs_dir / "serve-pipeline-engine.log",
    )
    starting = Starting(
        settings=settings,
        key=secrets.token_urlsafe(32),
        load_timeout_s=load_timeout,
        output=output,
        allow_lossy=allow_lossy,
    )
    return asyncio.run(serve_until_signalled(pinned, starting, options, own_key))


async def serve_until_signalled(
    pinned: PinnedPipeline, starting: Starting, options: GatewayOptions, own_key: str | None
) -> int:
    """Serve a pipeline until Ctrl-C or SIGTERM.

    Raises:
        DoesNotFit: a model, or all of them together, do not fit, whatever is given up.
        VlmHyperBenchError: a model that is needed cannot be loaded.
    """
    async with until_signalled() as signalled, AsyncExitStack() as stack:
        ended = asyncio.create_task(signalled.wait())
        loading = asyncio.create_task(_start(pinned, starting, options, own_key, stack))
        await asyncio.wait([loading, ended], return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            loading.cancel()
            await asyncio.wait([loading])
            return exits.OK
        tell = partial(note, flags=starting.output)
        try:
            gateways = await loading
        except DoesNotFit as error:
            raise named_by(error, {ALLOW_LOSSY: _FLAG}) from error
        keeping = [asyncio.create_task(gateway.keep(tell), name=gateway.name) for gateway in gateways]
        await asyncio.wait([*keeping, ended], return_when=asyncio.FIRST_COMPLETED)
        for task in keeping:
            task.cancel()
        for kept in await asyncio.gather(*keeping, return_exceptions=True):
            if isinstance(kept, Exception):
                raise kept
        note("Stopping the models …", starting.output)
    return exits.OK


async def _start(
    pinned: PinnedPipeline,
    starting: Starting,
    options: GatewayOptions,
    own_key: str | None,
    stack: AsyncExitStack,
) -> list[KeptGateway]:
    """Load the models, then the pipeline, and print where it is; the gateways end with the stack."""
    room, execution = await _room(pinned, starting)
    note(f"Models are loaded {_IN_WORDS[execution.mode]}: {execution.why}.", starting.output)
    started: dict[str, StartedModel] = {}
    models: list[ServedModel] = []
    given_up = [_given_up(None, step) for step in execution.steps]
    unusable = dropped_of(pinned.target, execution)
    for name in execution.dropped:
        note(f"{name} is left out, so that the others stay loaded together.", starting.output)
    is_held_known = bool((await asyncio.to_thread(starting.measure)).devices)
    for asked in asked_models(pinned.target):
        digest = digest_of(asked.model.target)
        if digest not in started and digest not in unusable:
            try:
                model = started_model(asked, starting, room, no=len(started))
                started[digest] = await stack.enter_async_context(model)
                given_up += [_given_up(asked.model.name, step) for step in started[digest].steps]
            except VlmHyperBenchError as error:
                if not can_do_without(pinned.target, digest):
                    raise
                unusable.add(digest)
                note(f"{asked.model.name} is left out: {error}", starting.output)
        if digest in started and asked.role != "repair":
            served = _served_model(pinned, asked, started[digest].gateway.client.base_url)
            if room.mode == "sequential":
                # What an engine holds of the machine's memory is seen while it is loaded.
                held = (room.needs.get(digest) or 0) if is_held_known else 0
                load = asdict(started[digest].request)
                served = served.model_copy(update={"load": load, "held_bytes": held})
            models.append(served)
    plan = ServingPlan(target=pinned.target, models=tuple(models), fallbacks=tuple(given_up))
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
    kept = KeptGateway(name=pinned.target.pipeline, options=options, client=gateway, request=request)
    stack.push_async_callback(kept.close)
    served_at = served_by(await gateway.load(request), gateway, own_key)
    print_served(replace(served_at, fallbacks=tuple(given_up)), starting.output)
    return [*(each.gateway for each in started.values()), kept]


async def _room(pinned: PinnedPipeline, starting: Starting) -> tuple[ServingRoom, Execution]:
    """Choose whether the models stay loaded together, by what they need and what is free."""
    free = await asyncio.to_thread(starting.measure)
    execution, needs = await asyncio.to_thread(
        execution_here,
        pinned.target,
        open_cache(),
        less_reserve(free),
        margin=starting.settings.memory_margin,
        allow_lossy=starting.allow_lossy,
    )
    room = ServingRoom(mode=execution.mode, measure=starting.measure, needs=needs, have_bytes=execution.have_bytes)
    return room, execution


def _served_model(pinned: PinnedPipeline, asked: AskedModel, url: str) -> ServedModel:
    own = pinned.own[asked.key].model_dump(mode="json", exclude_unset=True)
    return ServedModel(stage=asked.stage.id, merges=asked.role == "merge", name=asked.model.name, url=url, own=own)


def _given_up(model: str | None, step: Fallback) -> dict[str, JsonValue]:
    return {"model": model, **asdict(step)}
