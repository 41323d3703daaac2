"""One loaded target: a gateway with its model, and the child that writes request bodies for it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

import httpx2
import psutil

from vlmhyperbench.data import weights
from vlmhyperbench.data.load_fitting import FittedLoad, LoadLadder
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.domain.environments import RentedSpec
from vlmhyperbench.domain.execution import Residency
from vlmhyperbench.domain.recipes import ModelFile
from vlmhyperbench.domain.specs import EndpointTarget, ModelTarget, Target
from vlmhyperbench.environments.targets import PreparedTarget
from vlmhyperbench.files import stamp_of
from vlmhyperbench.logs.bounded import log_length
from vlmhyperbench.worker.fitted_loads import load_fitted
from vlmhyperbench.worker.gateway import CONTROL_TIMEOUT_S, GatewayClient, GatewayOptions, is_rented
from vlmhyperbench_inference_worker.bodies import BodyWriter
from vlmhyperbench_sdk.errors import Unavailable
from vlmhyperbench_sdk.gateway import EngineIdentity, LoadRequest, ModelStatus, request_headers
from vlmhyperbench_sdk.out_of_memory import says_out_of_memory

ANSWER_TIMEOUT_S = 2.0
"""An engine that accepts a connection but does not answer within this time is busy, not lost."""
LOG_TAIL_BYTES = 64 * 1024
EXPLAIN_TRIES = 20
EXPLAIN_PAUSE_S = 0.05
_NOBODY_BEHIND = frozenset({502, 503, 504})
"""HTTP statuses of a proxy that has no engine."""
_CHAT = "/v1/chat/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTarget:
    """The target that a job needs; with other secrets it is another target, so that no run uses another's key."""

    digest: str
    target: ModelTarget | EndpointTarget
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Name → present value."""
    load_timeout_s: float
    ladder: LoadLadder | None = None
    """What may be given up so that it fits; None where its engine has no ladder."""
    ran_out: FittedLoad | None = None
    """The load with which it ran out of memory while it answered; it is loaded on the next rung below."""
    residency: Residency = field(default_factory=Residency)
    cache: ModelCache
    """Where fetched and made files lie, and the folders that engines read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Where the load generator sends requests."""

    url: str
    headers: Mapping[str, str]
    """Header → name under which `secrets` holds its value."""
    secrets: Mapping[str, str] = field(repr=False)
    """Name → value of a header; goes over the load generator's stdin only."""
    through: Literal["engine", "gateway", "tunnel"]
    """`tunnel`: at the engine's own URL, which leads to another machine, so that times include the network."""


class Serving:
    """A gateway process with one loaded model; it has no `async with`, because it outlives the job that loaded it."""

    def __init__(
        self,
        wanted: WantedTarget,
        gateway: GatewayClient,
        bodies: BodyWriter,
        stamps: Mapping[Path, tuple[int, ...]],
        files_in_use: ExitStack,
    ) -> None:
        """Hold a started gateway.

        Args:
            wanted: The target.
            gateway: Its gateway, which has no model yet.
            bodies: The child that writes bodies for it.
            stamps: Size, time and inode of the model's files, taken before their hashes were computed.
            files_in_use: Keeps the files in the cache of models until it is closed.
        """
        self.wanted = wanted
        self.bodies = bodies
        self.status = ModelStatus(state="unloaded")
        self.engine_log: Path | None = None
        """File for the engine's output; None where it is not stored."""
        self.ready_bytes = 0
        """Length of that log when the engine was ready."""
        self.memory_before_bytes: int | None = None
        """Memory that the accelerators used before the load; None where it was not sampled."""
        self.fitted: FittedLoad | None = None
        """With which parameters it was loaded, and what was given up for them; None where it has no ladder."""
        self.prepared: PreparedTarget | None = None
        """Where it was started."""
        self.answered_options: set[str] = set()
        """Options of requests that the target has answered; `probing` does not probe them again."""
        self._gateway = gateway
        self._stamps = stamps
        self._files_in_use = files_in_use
        self._headers: dict[str, str] = {}
        self._is_closing = False

    @classmethod
    async def start(
        cls, wanted: WantedTarget, options: GatewayOptions, *, free: Callable[[], int | None] = lambda: None
    ) -> Self:
        """Start a gateway and load the target into it.

        Args:
            wanted: The target.
            options: How its gateway is started.
            free: Returns the free bytes of the memory that it is loaded into; None if unknown.

        Raises:
            NotFound: a model file is missing.
            Conflict: a model file is not the one that was pinned.
            InvalidInput: a parameter is wrong, or the adapter is not allowed.
            Unavailable: gateway or engine did not come up.
        """
        with ExitStack() as files_in_use:
            pinned = _files(wanted.target)
            files_in_use.enter_context(wanted.cache.in_use(weights.cached_files(pinned)))
            paths = [weights.locate(file.location, wanted.cache) for file in pinned]
            stamps = {path: stamp_of(path) for path in paths}
            files = await asyncio.to_thread(weights.files_for_engine, pinned, wanted.cache)
            gateway = await GatewayClient.start(options)
            serving = cls(wanted, gateway, BodyWriter(options.environment), stamps, files_in_use.pop_all())
        serving.engine_log = options.engine_log
        try:
            await serving._load(files, free)
            serving.ready_bytes = log_length(options.engine_log) if options.engine_log is not None else 0
        except BaseException:
            try:
                await serving.close()
            finally:  # even if the close is cancelled: nothing else knows this gateway, which holds the devices' locks
                gateway.kill()
            raise
        return serving

    @property
    def engine(self) -> EngineIdentity | None:
        """The identity of the engine, from the gateway, with the packages of its adapter."""
        return self.prepared.on_record(self.status.engine) if self.prepared is not None else self.status.engine

    @property
    def secret_values(self) -> list[str]:
        """Values that must not appear in a stored answer."""
        return list(self.wanted.secrets.values())

    @property
    def shows_a_secret(self) -> bool:
        """Whether requests have a key, or a header whose value is a secret."""
        return any(secret in value for value in self._headers.values() for secret in self.secret_values)

    @property
    def measured(self) -> Measured:
        """Where requests go: the engine's own URL, unless the adapter measures at the gateway."""
        if self.status.measured_at == "engine" and self.status.engine_url is not None:
            headers = {name: name for name in self._headers}
            url = self.status.engine_url.rstrip("/") + _CHAT
            through: Literal["engine", "tunnel"] = "tunnel" if is_rented(self.engine) else "engine"
            return Measured(url=url, headers=headers, secrets=self._headers, through=through)
        return Measured(
            url=self._gateway.base_url + _CHAT,
            headers={"X-API-Key": "gateway"},
            secrets={"gateway": self._gateway.key},
            through="gateway",
        )

    async def is_alive(self) -> bool:
        """Return whether gateway and engine run, and the engine's address answers.

        This notices a killed engine before the gateway does; the gateway never notices the loss of a remote engine. An
        engine whose files of weights changed counts as lost, because it may read the new ones through its mapping.
        """
        if any(stamp_of(path) != stamp for path, stamp in self._stamps.items()):
            return False
        if self._is_closing or not self._gateway.is_running or not _is_running(self.engine):
            return False
        try:
            self.status = await self._gateway.status()
        except Unavailable:
            return False
        url = self.status.engine_url
        return self.status.state == "ready" and url is not None and await _is_answering(url)

    def says_out_of_memory(self) -> bool:
        """Return whether the end of the engine's log since it was ready says that memory ran out."""
        if self.engine_log is None or not self.engine_log.is_file():
            return False
        size = self.engine_log.stat().st_size
        with self.engine_log.open("rb") as log:
            log.seek(max(min(self.ready_bytes, size), size - LOG_TAIL_BYTES))
            return says_out_of_memory(log.read().decode("utf-8", "replace"))

    async def why_lost(self) -> tuple[str | None, str]:
        """Return the code and the reason of a lost engine, as its gateway knows them; no code where it knows none.

        The gateway may notice the end of its engine a moment after the client whose stream broke.
        """
        tries = EXPLAIN_TRIES if self.engine is not None and self.engine.pid is not None else 1
        for _ in range(tries):
            try:
                status = await self._gateway.status()
            except Unavailable as error:
                return None, str(error)
            if status.error is not None:
                return status.error_code, status.error
            await asyncio.sleep(EXPLAIN_PAUSE_S)
        return None, "Its process has ended, or its address does not answer."

    async def close(self) -> None:
        """End the gateway, which ends its engine, and the body writer; if this is cancelled, it may be called again."""
        self._is_closing = True
        await self.bodies.close()
        await self._gateway.close()
        self._files_in_use.close()

    @property
    def is_lossy(self) -> bool:
        """Whether it was loaded with less than full quality, so that it fits."""
        return self.fitted is not None and self.fitted.is_lossy

    async def _files_of(self, substitute: ModelTarget) -> dict[str, str]:
        """Return the files of a smaller quantisation, which `is_alive` compares from now on."""
        pinned, cache = substitute.files, self.wanted.cache
        self._files_in_use.enter_context(cache.in_use(weights.cached_files(pinned)))
        self._stamps = {path: stamp_of(path) for path in (weights.locate(file.location, cache) for file in pinned)}
        return await asyncio.to_thread(weights.files_for_engine, pinned, cache)

    async def _load(self, files: Mapping[str, str], free: Callable[[], int | None]) -> None:
        """Load as far down the ladder as the memory asks, and after an out of memory once on the next rung."""
        wanted, target = self.wanted, self.wanted.target
        params = dict(target.engine_params)
        if isinstance(target, EndpointTarget):
            params["url"] = target.endpoint
        request = LoadRequest(
            model=target.model if isinstance(target, ModelTarget) else target.model_name,
            backend_class=target.backend_class,
            files=files,
            engine_params=params,
            env=wanted.secrets,
            load_timeout_s=wanted.load_timeout_s,
        )
        if wanted.ladder is None:
            self.status = await self._gateway.load(request)
        else:
            loaded = await load_fitted(
                self._gateway, request, wanted.ladder, files_of=self._files_of, free=free, below=wanted.ran_out
            )
            self.status, self.fitted = loaded.status, loaded.fitted
        if self.engine is not None and self.engine.pid is None and self.status.measured_at == "engine":
            self._headers = request_headers(request)


def is_to_be_rented(target: Target) -> bool:
    """Return whether the engine of a target runs on a machine that is rented for it."""
    return isinstance(target, ModelTarget) and isinstance(target.environment, RentedSpec)


def _is_running(engine: EngineIdentity | None) -> bool:
    """Return whether the engine's process runs; True for a remote engine, whose process is not known."""
    if engine is None or engine.pid is None:
        return True
    try:
        return psutil.Process(engine.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def _is_answering(url: str) -> bool:
    """Return whether the address answers at all; the request has no key."""
    # The load generator trusts the same certificates.
    context, timeout = ssl.create_default_context(), httpx2.Timeout(CONTROL_TIMEOUT_S, read=ANSWER_TIMEOUT_S)
    try:
        async with (
            httpx2.AsyncClient(verify=context, timeout=timeout, trust_env=False) as client,
            client.stream("GET", url.rstrip("/") + "/v1/models") as response,
        ):
            return response.status_code not in _NOBODY_BEHIND
    except httpx2.ReadTimeout:
        return True
    except httpx2.HTTPError:
        return False


def _files(target: ModelTarget | EndpointTarget) -> tuple[ModelFile, ...]:
    return target.files if isinstance(target, ModelTarget) else ()
