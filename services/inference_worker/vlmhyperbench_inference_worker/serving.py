"""One loaded target: a gateway child, the model it holds, and the child that writes request bodies for it."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import ssl
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import httpx2
import psutil

from vlmhyperbench.data import weights
from vlmhyperbench.domain.outcomes import STORAGE_FULL
from vlmhyperbench.domain.specs import EndpointTarget, ModelTarget
from vlmhyperbench.processes import Child, start_child
from vlmhyperbench.worker.gateways import CONTROL_TIMEOUT_S, load_model, parse_status, start_gateway
from vlmhyperbench_sdk.errors import InvalidInput, Unavailable
from vlmhyperbench_sdk.gateway import EngineIdentity, LoadRequest, ModelStatus, request_headers

ANSWER_TIMEOUT_S = 2.0
"""Whoever holds a connection for so long is busy, not gone."""
_NOBODY_BEHIND = frozenset({502, 503, 504})
"""HTTP statuses of a proxy that has no engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the load generator is pointed at."""

    url: str
    headers: Mapping[str, str]
    """Header → name under which `secrets` holds its value."""
    secrets: Mapping[str, str]
    """Name → value of a header; goes over the load generator's stdin only."""
    through: Literal["engine", "gateway"]
    """`engine` or `gateway`."""


class Serving:
    """A gateway process with one model loaded; `async with` is not used because it outlives jobs (residency)."""

    def __init__(self, digest: str, gateway: Child, client: httpx2.AsyncClient, key: str) -> None:
        self.digest = digest
        self.status = ModelStatus(state="unloaded")
        self._gateway = gateway
        self._client = client
        self._key = key
        self._bodies: Child | None = None
        self._bodies_lock = asyncio.Lock()
        self._secrets: dict[str, str] = {}
        self._adapters: tuple[str, ...] = ()
        self._headers: dict[str, str] = {}
        self._is_closing = False
        self._stamps: dict[Path, tuple[int, ...]] = {}
        """Of the model's files, from before their hashes were computed."""
        self.probed: set[str] = set()
        """Options of requests that the target has answered: `probing` does not ask for them again."""

    @classmethod
    async def start(
        cls,
        digest: str,
        target: ModelTarget | EndpointTarget,
        *,
        secret_values: Mapping[str, str],
        load_timeout_s: float,
        label: Mapping[str, str],
        log_path: Path,
        policy: Sequence[str] = (),
        adapters: Sequence[str] = (),
        lock_fds: Sequence[int] = (),
    ) -> Self:
        """Start a gateway and load the target into it; `policy` and `adapters` are its flags for what may be used.

        Raises:
            NotFound: a model file is missing.
            Conflict: a model file is not the one that was pinned.
            InvalidInput: a parameter is wrong.
            Unavailable: gateway or engine did not come up.
        """
        paths = [weights.locate(file.location) for file in target.files] if isinstance(target, ModelTarget) else []
        stamps = {path: _stamp(path) for path in paths}
        files = await asyncio.to_thread(_verified, target) if isinstance(target, ModelTarget) else {}
        key = secrets.token_urlsafe(32)
        flags = [*policy, *adapters]
        gateway, port = await start_gateway(key, flags, label=label, log_path=log_path, lock_fds=lock_fds)
        client = httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", headers={"X-API-Key": key}, timeout=CONTROL_TIMEOUT_S, trust_env=False
        )
        serving = cls(digest, gateway, client, key)
        serving._secrets = dict(secret_values)
        serving._adapters = tuple(adapters)
        serving._stamps = stamps
        try:
            await serving._load(target, files, load_timeout_s)
        except BaseException:
            try:
                await serving.close()
            finally:  # also where that is cancelled: nobody else knows the gateway, which holds the devices' locks
                if gateway.returncode is None:
                    gateway.send_signal(signal.SIGKILL)
            raise
        return serving

    @property
    def engine(self) -> EngineIdentity | None:
        """What the gateway knows of the engine."""
        return self.status.engine

    @property
    def secret_values(self) -> list[str]:
        """What must be in no answer that is stored."""
        return list(self._secrets.values())

    @property
    def shows_a_secret(self) -> bool:
        """Whether requests carry a key, or a header that is a secret."""
        return any(secret in value for value in self._headers.values() for secret in self._secrets.values())

    def is_for(self, digest: str, secret_values: Mapping[str, str]) -> bool:
        """Say whether this is that target, with the secrets as they are now: nobody is billed to another's key."""
        return self.digest == digest and self._secrets == secret_values

    @property
    def measured(self) -> Measured:
        """Where requests go: the engine's own URL, unless the adapter needs the gateway's help."""
        if self.status.measured_at == "engine" and self.status.engine_url is not None:
            headers = {name: name for name in self._headers}
            url = self.status.engine_url.rstrip("/") + "/v1/chat/completions"
            return Measured(url=url, headers=headers, secrets=self._headers, through="engine")
        url = f"{self._client.base_url}".rstrip("/") + "/v1/chat/completions"
        return Measured(url=url, headers={"X-API-Key": "gateway"}, secrets={"gateway": self._key}, through="gateway")

    async def is_alive(self) -> bool:
        """Say whether gateway and engine are still there, and somebody answers at the engine's address.

        A kill is seen here before the gateway has noticed it; the gateway never notices that a remote engine went. An
        engine whose weights were written over is as good as gone: it may read the new ones through its mapping.
        """
        if any(_stamp(path) != stamp for path, stamp in self._stamps.items()):
            return False
        if self._is_closing or self._gateway.returncode is not None or not _is_running(self.engine):
            return False
        try:
            answer = await self._client.get("/v1/model/status")
            answer.raise_for_status()
        except httpx2.HTTPError:
            return False
        self.status = parse_status(answer)
        url = self.status.engine_url
        return self.status.state == "ready" and url is not None and await _is_answering(url)

    async def write_bodies(self, backend_class: str, requests: Path, out: Path, images: Mapping[str, Path]) -> None:
        """Have the gateway's environment write the body of every request, with `to_engine`, beside a table of offsets.

        Whoever is cancelled here ends the child, and the next order starts another.

        Raises:
            InvalidInput: the engine cannot do what a request asks.
            Unavailable: the child ended.
        """
        order = {
            "backend_class": backend_class,
            "requests": str(requests),
            "out": str(out),
            "images": {digest: str(path) for digest, path in images.items()},
        }
        async with self._bodies_lock:
            child = await self._bodies_child()
            try:
                answer = await _exchange(child, order)
            except BaseException:
                # Its answer may still come, and would be taken for that of the next order. Nothing is awaited before
                # the kill: a second cancel would leave the child.
                self._bodies = None
                child.send_signal(signal.SIGKILL)
                await child.wait()
                raise
        if answer["event"] == "done":
            return
        if answer["code"] in {STORAGE_FULL, "unavailable"}:
            raise Unavailable(f"The request bodies cannot be written: {answer['message']}", code=answer["code"])
        which = "A request" if answer["ordinal"] is None else f"Request {answer['ordinal']}"
        message = f"{which} of this job cannot be sent to {backend_class}: {answer['message']}"
        raise InvalidInput(message, code=answer["code"])

    async def close(self) -> None:
        """Unload and end every process; the gateway ends its engine. Where it was cut short, it may be called again."""
        self._is_closing = True
        if self._bodies is not None:
            await self._bodies.stop(term_s=2)
        if self._gateway.returncode is None and not self._client.is_closed:
            with suppress(httpx2.HTTPError):  # the signal below ends it all the same
                await self._client.post("/v1/model/unload")
        await self._client.aclose()
        await self._gateway.stop()

    async def warm(self) -> None:
        """Start the child that writes bodies before it is needed."""
        async with self._bodies_lock:
            await self._bodies_child()

    async def _bodies_child(self) -> Child:
        if self._bodies is None or self._bodies.returncode is not None:
            self._bodies = await start_child([sys.executable, "-m", "vlmhyperbench_gateway.bodies", *self._adapters])
        return self._bodies

    async def _load(self, target: ModelTarget | EndpointTarget, files: Mapping[str, str], timeout_s: float) -> None:
        params = dict(target.engine_params)
        if isinstance(target, EndpointTarget):
            params["url"] = target.endpoint
        request = LoadRequest(
            model=target.model if isinstance(target, ModelTarget) else target.model_name,
            backend_class=target.backend_class,
            files=files,
            engine_params=params,
            env=self._secrets,
            load_timeout_s=timeout_s,
        )
        self.status = await load_model(self._client, request)
        if self.engine is not None and self.engine.pid is None and self.status.measured_at == "engine":
            self._headers = request_headers(request)


async def _exchange(child: Child, order: Mapping[str, object]) -> dict[str, Any]:
    """Give the child an order and return its answer.

    Raises:
        Unavailable: it ended.
    """
    assert child.stdin is not None, "it was started with a pipe"  # noqa: S101 -- narrows the type
    assert child.stdout is not None, "it was started with a pipe"  # noqa: S101 -- narrows the type
    try:
        child.stdin.write(json.dumps(order).encode() + b"\n")
        await child.stdin.drain()
        line = await child.stdout.readline()
    except ConnectionError as error:
        raise Unavailable("The process that writes request bodies ended.") from error
    if not line:
        raise Unavailable("The process that writes request bodies ended.")
    answer: dict[str, Any] = json.loads(line)
    return answer


def _is_running(engine: EngineIdentity | None) -> bool:
    """Whether the engine's process runs; one that somebody else runs is theirs to watch."""
    if engine is None or engine.pid is None:
        return True
    try:
        return psutil.Process(engine.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def _is_answering(url: str) -> bool:
    """Whether an engine is there, whatever it says; it is asked without a key."""
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


def _stamp(path: Path) -> tuple[int, ...]:
    """Return what changes with a file's content; nothing of one that is not there."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _verified(target: ModelTarget) -> dict[str, str]:
    return {file.role: str(weights.verify(file)) for file in target.files}
