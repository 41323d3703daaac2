"""Start a gateway as a child and load a model into it: for the inference worker, and for `vlmhyperbench serve`."""

from __future__ import annotations

import json
import signal
import sys
from asyncio import timeout
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from subprocess import DEVNULL

import httpx2

from vlmhyperbench.processes import Child, start_child
from vlmhyperbench_sdk.errors import InvalidInput, NotFound, Unavailable, VlmHyperBenchError
from vlmhyperbench_sdk.gateway import KEY_PARAM, EngineIdentity, LoadRequest, ModelStatus

START_TIMEOUT_S = 30.0
CONTROL_TIMEOUT_S = 10.0
KEY_VARIABLE = "VLMHB_GATEWAY_KEY"
NAME_THE_KEY = (
    f"Set {KEY_PARAM} in the engine_params of the target to the name of its secret; `run` takes it by --api-key."
)
"""Cure where an endpoint wants a key and none is its own; a judge has a target too."""


async def start_gateway(
    key: str,
    arguments: Sequence[str] = (),
    *,
    log_path: Path,
    label: Mapping[str, str] | None = None,
    lock_fds: Sequence[int] = (),
    host: str = "127.0.0.1",
    port: int = 0,
) -> tuple[Child, int]:
    """Start a gateway and return it with its port; it ends with this process.

    Args:
        key: What its clients must send.
        arguments: Further flags, as those for addresses of endpoints.
        log_path: Where its log goes.
        label: Environment variables by which its process is known.
        lock_fds: Open locks that it inherits.
        host: Address to listen at.
        port: Port to listen at; 0 is one of the system's choice.

    Raises:
        Unavailable: it did not come up.
    """
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("ab") as log:
        child = await start_child(
            [sys.executable, "-m", "vlmhyperbench_gateway", "--host", host, "--port", str(port), *arguments],
            env={**(label or {}), KEY_VARIABLE: key},
            stdin=DEVNULL,
            stderr=log,
            pass_fds=lock_fds,
        )
    assert child.stdout is not None  # noqa: S101 -- narrows the type
    try:
        async with timeout(START_TIMEOUT_S):
            line = await child.stdout.readline()
    except TimeoutError as error:
        await child.stop()
        raise Unavailable(f"The gateway did not listen within {START_TIMEOUT_S:.0f} s.") from error
    except BaseException:
        child.send_signal(signal.SIGKILL)  # it would keep the locks of the devices
        raise
    if not line:
        await child.stop()
        raise Unavailable(f"The gateway ended at its start: {_last_line(log_path)}", cure=f"See {log_path}.")
    return child, int(json.loads(line)["port"])


async def load_model(client: httpx2.AsyncClient, request: LoadRequest) -> ModelStatus:
    """Load a model into the gateway that a client speaks to, and wait until it is ready.

    Raises:
        NotFound: adapter, file or secret does not exist.
        InvalidInput: a parameter is wrong, or the endpoint wants a key.
        Unavailable: gateway or engine did not come up.
    """
    try:
        answer = await client.post(
            "/v1/model/load", json=asdict(request), timeout=request.load_timeout_s + CONTROL_TIMEOUT_S
        )
    except httpx2.HTTPError as error:
        raise Unavailable(f"The gateway did not answer the load of {request.model!r}: {error!r}.") from error
    if answer.status_code >= 400:
        raise _refusal(answer, request)
    status = parse_status(answer)
    if status.state != "ready":
        raise Unavailable(f"The model {request.model!r} did not load: {status.error}.")
    return status


def parse_status(answer: httpx2.Response) -> ModelStatus:
    """Read what the gateway says of its model."""
    document = answer.json()
    engine = document.pop("engine", None)
    if engine is not None:
        engine["argv"] = tuple(engine["argv"])
    return ModelStatus(**document, engine=EngineIdentity(**engine) if engine is not None else None)


def _last_line(log_path: Path) -> str:
    lines = log_path.read_bytes()[-2000:].decode("utf-8", "replace").splitlines()
    return lines[-1] if lines else "it said nothing."


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
        return InvalidInput(f"The endpoint {url} was asked without a key and wants one.", cure=NAME_THE_KEY, code=code)
    if code == "endpoint_denied":
        return InvalidInput(text, cure=f"Run: vlmhyperbench secret set {' or '.join(request.env)}", code=code)
    if answer.status_code == 404:
        return NotFound(text, code=code)
    if answer.status_code < 500:
        return InvalidInput(text, code=code)
    return Unavailable(text, code=code)
