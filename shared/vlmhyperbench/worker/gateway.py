"""The client of a gateway: starts it as a child process, loads a model into it, reads its status, ends it.

The inference worker and `vlmhyperbench serve` use it.
"""

from __future__ import annotations

import json
import secrets
import signal
from asyncio import timeout
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from subprocess import DEVNULL
from typing import Self

import httpx2

from vlmhyperbench.environments.base import GATEWAY_VARIABLES
from vlmhyperbench.errors import OutOfMemory
from vlmhyperbench.monitoring.recording import counted
from vlmhyperbench.processes import Child, start_child
from vlmhyperbench_sdk.errors import InvalidInput, NotFound, PluginFailure, Unavailable, VlmHyperBenchError
from vlmhyperbench_sdk.gateway import KEY_PARAM, EngineEnvironment, EngineIdentity, LoadRequest, ModelStatus
from vlmhyperbench_sdk.net import UrlPolicy

START_TIMEOUT_S = 30.0
CONTROL_TIMEOUT_S = 10.0
KEY_VARIABLE = "VLMHB_GATEWAY_KEY"
NAME_THE_KEY = (
    f"Set {KEY_PARAM} in the engine_params of the target to the name of its secret; `run` takes it by --api-key."
)
"""Cure if an endpoint requires a key and the target, which may be that of a judge, names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """Options with which a gateway is started; the model and its secrets come later, with the load request."""

    environment: EngineEnvironment
    log: Path
    policy: UrlPolicy = field(default_factory=UrlPolicy)
    """Endpoints to which it may connect."""
    host: str = "127.0.0.1"
    port: int = 0
    """0: the system chooses a free port."""
    data_root: Path | None = None
    """Folder of files that requests may name as images."""
    engine_log: Path | None = None
    """File for the first and the last part of the engine's output (`logs.bounded`)."""
    lock_fds: tuple[int, ...] = ()
    """Open lock files that it inherits."""
    max_in_flight: int | None = None
    """Maximum number of requests in flight, beyond which it answers 429; None is its default."""

    def flags(self) -> Sequence[str]:
        """Return the gateway's arguments."""
        flags = ["--host", self.host, "--port", str(self.port)]
        flags += ["--allow-loopback"] if self.policy.allow_loopback else []
        flags += [flag for host in sorted(self.policy.allow_hosts) for flag in ("--allow-host", host)]
        flags += ["--data-root", str(self.data_root)] if self.data_root is not None else []
        flags += ["--engine-log", str(self.engine_log)] if self.engine_log is not None else []
        flags += ["--max-in-flight", str(self.max_in_flight)] if self.max_in_flight is not None else []
        return flags


class GatewayClient:
    """A gateway that runs as a child process and ends with this process."""

    def __init__(self, child: Child, base_url: str, key: str) -> None:
        self.base_url = base_url
        self.key = key
        """Key that its clients must send."""
        self._child = child
        self._http = httpx2.AsyncClient(
            base_url=base_url, headers={"X-API-Key": key}, timeout=CONTROL_TIMEOUT_S, trust_env=False
        )

    @classmethod
    async def start(cls, options: GatewayOptions, *, key: str | None = None) -> Self:
        """Start a gateway, by default with a new key, and wait until it listens.

        Raises:
            Unavailable: it did not start.
        """
        key = key or secrets.token_urlsafe(32)
        options.log.parent.mkdir(parents=True, exist_ok=True)
        with options.log.open("ab") as log:
            environment = options.environment
            child = await start_child(
                [*environment.module("vlmhyperbench_gateway"), *options.flags()],
                env={**environment.to_variables(), KEY_VARIABLE: key},
                inherited=GATEWAY_VARIABLES if environment.is_gateway_apart else None,
                cwd=options.log.parent if environment.is_gateway_apart else None,  # its modules would be found first
                stdin=DEVNULL,
                stderr=log,
                pass_fds=options.lock_fds,
            )
        port = await _port(child, options.log)
        reached = "127.0.0.1" if options.host in {"0.0.0.0", "::"} else options.host  # noqa: S104 -- the user's choice
        return cls(child, f"http://{f'[{reached}]' if ':' in reached else reached}:{port}", key)

    @property
    def pid(self) -> int:
        """Process id of the gateway."""
        return self._child.pid

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        return self._child.returncode is None

    async def load(self, request: LoadRequest) -> ModelStatus:
        """Load a model and wait until it is ready.

        Raises:
            NotFound: adapter, file or secret does not exist.
            InvalidInput: a parameter is wrong, the adapter is not allowed, or the endpoint wants a key.
            PluginFailure: the adapter broke its contract.
            Unavailable: the engine did not start.
        """
        try:
            with counted("gateway_requests_total", call="load"):
                answer = await self._http.post(
                    "/v1/model/load", json=asdict(request), timeout=request.load_timeout_s + CONTROL_TIMEOUT_S
                )
        except httpx2.HTTPError as error:
            raise Unavailable(
                f"The gateway did not answer the request to load {request.model!r}: {error!r}."
            ) from error
        if answer.status_code >= 400:
            raise _refusal(answer, request)
        status = _parse_status(answer)
        if status.state != "ready":
            raise Unavailable(f"The model {request.model!r} did not load: {status.error}.")
        return status

    async def status(self) -> ModelStatus:
        """Read the status of the loaded model.

        Raises:
            Unavailable: the gateway does not answer.
        """
        try:
            with counted("gateway_requests_total", call="status"):
                answer = await self._http.get("/v1/model/status")
            answer.raise_for_status()
            return _parse_status(answer)
        except (httpx2.HTTPError, ValueError) as error:
            raise Unavailable(f"The gateway no longer answers: {error!r}.") from error

    async def unload(self) -> None:
        """Unload the model; the gateway stays, and may load again.

        Raises:
            Unavailable: the gateway does not answer.
        """
        try:
            with counted("gateway_requests_total", call="unload"):
                answer = await self._http.post("/v1/model/unload")
            answer.raise_for_status()
        except httpx2.HTTPError as error:
            raise Unavailable(f"The gateway did not unload its model: {error!r}.") from error

    async def close(self) -> None:
        """Unload the model and end the process; after an interruption it may be called again."""
        if self.is_running and not self._http.is_closed:
            with suppress(httpx2.HTTPError), counted("gateway_requests_total", call="unload"):  # it is ended below
                await self._http.post("/v1/model/unload")
        await self._http.aclose()
        await self._child.stop()

    def kill(self) -> None:
        """Kill the process, with which its engine ends."""
        if self.is_running:
            self._child.send_signal(signal.SIGKILL)


def is_rented(engine: EngineIdentity | None) -> bool:
    """Return whether an engine runs on a rented machine; its process id here is then that of its launcher."""
    return engine is not None and engine.environment.get("kind") == "remote"


async def _port(child: Child, log: Path) -> int:
    """Read the port on which a gateway listens from its stdout; a gateway that does not print it is ended."""
    try:
        async with timeout(START_TIMEOUT_S):
            line = await child.stdout.readline()
    except TimeoutError as error:
        await child.stop()
        raise Unavailable(f"The gateway did not listen within {START_TIMEOUT_S:.0f} s.") from error
    except BaseException:
        child.send_signal(signal.SIGKILL)  # it would hold the locks of the devices
        raise
    if not line:
        await child.stop()
        raise Unavailable(f"The gateway ended while it started: {_last_line(log)}", cure=f"See {log}.")
    return int(json.loads(line)["port"])


def _parse_status(answer: httpx2.Response) -> ModelStatus:
    document = answer.json()
    engine = document.pop("engine", None)
    if engine is not None:
        engine["argv"] = tuple(engine["argv"])
    return ModelStatus(**document, engine=EngineIdentity(**engine) if engine is not None else None)


def _last_line(log: Path) -> str:
    lines = log.read_bytes()[-2000:].decode("utf-8", "replace").splitlines()
    return lines[-1] if lines else "its log is empty."


def _refusal(answer: httpx2.Response, request: LoadRequest) -> VlmHyperBenchError:
    try:
        problem = answer.json()
    except ValueError:
        problem = {}
    detail = problem.get("error", problem) if isinstance(problem, dict) else {}
    message = detail.get("message") or detail.get("detail") or f"HTTP {answer.status_code}"
    text = f"The model {request.model!r} was not loaded: {message}"
    code = detail.get("code") if isinstance(detail.get("code"), str) else None
    if code == "endpoint_denied" and not request.env:
        url = request.engine_params.get("url")
        return InvalidInput(
            f"The endpoint {url} requires a key, and the target names none.", cure=NAME_THE_KEY, code=code
        )
    if code == "endpoint_denied":
        return InvalidInput(text, cure=f"Run: vlmhyperbench secret set {' or '.join(request.env)}", code=code)
    if answer.status_code == 404:
        return NotFound(text, code=code)
    if answer.status_code < 500:
        return InvalidInput(text, code=code)
    if answer.status_code == 507:
        return OutOfMemory(text)
    if code == PluginFailure.code:
        return PluginFailure(text)
    return Unavailable(text, code=code)
