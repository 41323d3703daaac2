"""`serve`: serve one model behind a gateway, at an OpenAI-compatible URL, until Ctrl-C; without a stack."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.bringing import GGUF_SCHEME, bring_model, reference_of
from vlmhyperbench.cli.choices import read_param
from vlmhyperbench.cli.fetching import open_cache
from vlmhyperbench.cli.groups import SERVER, TARGET
from vlmhyperbench.cli.output import byte_teller, emit, note, say, teller
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.paths import is_file
from vlmhyperbench.cli.resolving import load_request, resolve_model
from vlmhyperbench.cli.run_flags import Repeatable
from vlmhyperbench.data.sending import send_model
from vlmhyperbench.data.weights import cached_files
from vlmhyperbench.domain.cached_files import CachedFile
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.environments.targets import prepared_target
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.errors import InvalidInput, NotFound, Unavailable
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.gateway import GatewayClient, GatewayOptions
from vlmhyperbench_sdk.gateway import LoadRequest, ModelStatus
from vlmhyperbench_sdk.types import JsonObject

MIN_KEY_CHARACTERS = 16
CHECK_INTERVAL_S = 1.0
"""Time between two checks of whether gateway and engine still run."""

Port = Annotated[int, Parameter(validator=Number(gte=0, lte=65_535))]
Seconds = Annotated[float, Parameter(validator=Number(gt=0, lte=7200))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """`data` of `vlmhyperbench serve --json`, once the model is ready."""

    url: str
    """Base URL for clients of the OpenAI API."""
    key: str | None
    """The generated key; None if the caller has given one."""
    model: str
    backend: str
    engine: str
    engine_version: str
    engine_url: str | None
    """The engine's own URL, if it can be measured without the gateway."""
    pid: int
    """Process id of the gateway."""
    fallbacks: tuple[JsonObject, ...] = ()
    """What was given up so that the models of a pipeline fit: model, rung, before, after, is_lossy."""


def serve(
    model: str,
    /,
    *,
    backend: Annotated[str | None, Parameter(group=TARGET)] = None,
    mmproj: Annotated[str | None, Parameter(group=TARGET)] = None,
    engine_param: Annotated[Repeatable, Parameter(group=TARGET)] = (),
    load_timeout: Annotated[Seconds, Parameter(group=TARGET)] = 300.0,
    host: Annotated[str, Parameter(group=SERVER)] = "127.0.0.1",
    port: Annotated[Port, Parameter(group=SERVER)] = 0,
    api_key_env: Annotated[str | None, Parameter(group=SERVER)] = None,
    data_root: Annotated[Path | None, Parameter(group=SERVER)] = None,
    output: OutputFlags = TEXT,
) -> int:
    """Serve one model at an OpenAI-compatible URL until Ctrl-C; no stack is needed.

    The URL and the key are printed as soon as the model is ready.

    Args:
        model: Registered model; or a GGUF file of weights, folder:FOLDER, or hf:ORG/NAME[@REVISION], as in `run`.
        backend: Backend that runs a registered model; by default the model's first one.
        mmproj: For a GGUF file: GGUF file of the image projector that belongs to it.
        engine_param: Parameter of the engine, NAME=VALUE, for example n_ctx=2048; the value is JSON or text. May be
            given several times.
        host: Address to listen on. Clients need the key; the connection is not encrypted.
        port: Port to listen on; 0 chooses a free one.
        api_key_env: Name of the environment variable that contains the key for clients; by default a new key is
            generated and printed.
        data_root: Folder whose images requests may name by their paths; without it, requests must contain the images.
        load_timeout: Seconds after which starting the engine counts as failed.
        output: How the output is printed.
    """
    require_gateway("serve")
    settings = Settings.load()
    environment, logs = settings.engine_environment, settings.logs_dir
    reference = reference_of(model)
    if reference is None or reference.scheme != GGUF_SCHEME:
        registered = bring_model(model, mmproj=mmproj, backend=backend, output=output)
        model = registered.name if registered is not None else model
    request, files, target = _request(model, backend, mmproj, engine_param, load_timeout, adapters=environment.adapters)
    options = GatewayOptions(
        environment=environment,
        log=logs / "serve.log",
        host=host,
        port=port,
        data_root=data_root.absolute() if data_root is not None else None,
        engine_log=logs / "serve-engine.log",
    )
    key = read_key(api_key_env) if api_key_env is not None else None
    with open_cache().in_use(files):
        return asyncio.run(_serve_in(target, settings, request, options, key, output))


def require_gateway(command: str) -> None:
    """Check that a command can start gateways.

    Raises:
        Unavailable: the gateway is not installed.
    """
    if importlib.util.find_spec("vlmhyperbench_gateway") is None:
        raise Unavailable(
            f"`vlmhyperbench {command}` needs the gateway, which is not installed.",
            cure="Install vlmhyperbench-gateway and the adapter of your engine.",
            code="not_installed",
        )


def _request(
    model: str,
    backend: str | None,
    mmproj: str | None,
    engine_param: Sequence[str],
    load_timeout_s: float,
    *,
    adapters: Collection[str],
) -> tuple[LoadRequest, list[CachedFile], ModelTarget | None]:
    """Return the request to load a GGUF file or a registered model, its files of a hub, and its pinned target.

    Raises:
        InvalidInput: flags exclude each other, or a parameter of the engine has no name.
        NotFound: a file or model does not exist.
        Conflict: a file of the model does not match its registered hash.
        RegistryErrors: the model cannot be used.
    """
    params = dict(map(read_param, engine_param))
    reference = reference_of(model)
    if reference is not None:
        if backend not in (None, "llamacpp"):
            raise InvalidInput(
                f"The backend {backend!r} cannot read GGUF files.", cure="Leave out --backend.", code="usage"
            )
        path = Path(reference.path)
        files = {"weights": _file(path)} | ({} if mmproj is None else {"mmproj": _file(Path(mmproj))})
        request = LoadRequest(
            model=path.stem,
            backend_class="llamacpp",
            files=files,
            engine_params=params,
            load_timeout_s=load_timeout_s,
        )
        return request, [], None
    target = resolve_model(model, backend, params, adapters=adapters)
    return load_request(target, open_cache(), load_timeout_s), cached_files(target.files), target


def _file(path: Path) -> str:
    if not is_file(path):
        cure = "Correct the path, or give the name of a registered model: `vlmhyperbench registry ls models`."
        raise NotFound(f"There is no file {path}.", cure=cure)
    return str(path.absolute())


def read_key(name: str) -> str:
    """Return the key for clients from an environment variable.

    Raises:
        InvalidInput: it is not set, or too short to be a key.
    """
    key = os.environ.get(name, "")
    if len(key) < MIN_KEY_CHARACTERS or not (key.isascii() and key.isprintable()):
        raise InvalidInput(
            f"The environment variable {name} has no key of at least {MIN_KEY_CHARACTERS} printable ASCII characters.",
            cure="Set it to such a key, or leave out --api-key-env to generate one.",
        )
    return key


async def _serve_in(
    target: ModelTarget | None,
    settings: Settings,
    request: LoadRequest,
    options: GatewayOptions,
    own_key: str | None,
    output: OutputFlags,
) -> int:
    """Serve in the environments of the target, which are built if they are missing."""
    if target is None or not target.is_apart:
        return await _serve(request, options, own_key, output)
    tell = teller(output, target.backend)
    async with prepared_target(target, options.environment, Workshop.of(settings), tell=tell) as ready:
        options = replace(options, environment=ready.environment, lock_fds=ready.lock_fds)
        told = byte_teller(output, target.backend)
        await send_model(ready.rented, target.files, request.files, settings, sent=told)
        return await _serve(request, options, own_key, output)


async def _serve(request: LoadRequest, options: GatewayOptions, own_key: str | None, output: OutputFlags) -> int:
    async with until_signalled() as signalled:
        ended = asyncio.create_task(signalled.wait())
        note(f"Loading {request.model} …", output)
        gateway = await GatewayClient.start(options, key=own_key)
        try:
            loading = asyncio.create_task(gateway.load(request))
            await asyncio.wait([loading, ended], return_when=asyncio.FIRST_COMPLETED)
            if not loading.done():
                loading.cancel()
                return exits.OK
            print_served(served_by(await loading, gateway, own_key), output)
            failed = asyncio.create_task(wait_for_failure(gateway))
            await asyncio.wait([failed, ended], return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                raise Unavailable(await failed, cure=f"Read {options.engine_log}.", code="engine_failed")
            failed.cancel()
            note("Stopping the model …", output)
        finally:
            await gateway.close()
    return exits.OK


@asynccontextmanager
async def until_signalled() -> AsyncIterator[asyncio.Event]:
    """Yield an event that Ctrl-C and SIGTERM set, instead of ending the process."""
    loop, signalled = asyncio.get_running_loop(), asyncio.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        loop.add_signal_handler(number, signalled.set)
    try:
        yield signalled
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


async def wait_for_failure(gateway: GatewayClient) -> str:
    """Wait until a gateway or its engine fails, and return the reason."""
    while True:
        await asyncio.sleep(CHECK_INTERVAL_S)
        try:
            status = await gateway.status()
        except Unavailable as error:
            return error.message
        if status.state != "ready":
            return status.error or f"The model is {status.state}."


def served_by(status: ModelStatus, gateway: GatewayClient, own_key: str | None) -> Served:
    """Return what is told of a gateway whose model is ready."""
    engine = status.engine
    return Served(
        url=f"{gateway.base_url}/v1",
        key=gateway.key if own_key is None else None,
        model=status.model or "",
        backend=status.backend_class or "",
        engine=engine.name if engine is not None else "",
        engine_version=engine.version if engine is not None else "",
        engine_url=status.engine_url,
        pid=gateway.pid,
    )


def print_served(served: Served, output: OutputFlags) -> None:
    """Print where a model is served."""
    if output.json:
        emit("served", served)
        return
    say(f"{served.model} is served by {served.engine} {served.engine_version}.")
    say(f"url: {served.url}")
    say(f"key: {served.key or 'the key of --api-key-env'}")
    note("Clients of the OpenAI API read them from OPENAI_BASE_URL and OPENAI_API_KEY. Ctrl-C stops the model.", output)
