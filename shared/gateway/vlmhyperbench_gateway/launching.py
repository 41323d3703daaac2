"""Plan an engine and start it: as a child of this process, or through the launcher of its environment.

A launcher starts the engine elsewhere, as in a container, and stands in for it here: its output is the engine's, and it
ends as the engine ends. `EngineEnvironment.launcher` says what the two exchange.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from vlmhyperbench.errors import PluginFailure, VlmHyperBenchError
from vlmhyperbench.logs import process_masker
from vlmhyperbench.processes import Child, child_environment, start_child
from vlmhyperbench_gateway.errors import LOAD_LONGER, LoadFailed, without_secrets
from vlmhyperbench_sdk.gateway import EngineEnvironment, LoadRequest
from vlmhyperbench_sdk.protocols import LOOPBACK, Backend, EngineLaunch, RemoteEngine
from vlmhyperbench_sdk.types import JsonObject

_MAX_LINES = 1000
"""Lines of other output that a launcher may print before it says where it has placed the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where an engine runs; the defaults are those of a child of this process."""

    pid: int | None = None
    """Its first process, as this machine sees it; None: the child's."""
    packages: Mapping[str, str] | None = None
    """Distribution → version; None: the engine's interpreter is asked."""
    environment: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """An engine that was started, and by which plan."""

    child: Child
    launch: EngineLaunch
    placement: Placement = field(default_factory=Placement)
    scratch: TemporaryDirectory[str] | None = None
    """Its folder of temporary files, which it leaves behind if it is killed; None: it is not on this machine."""

    def remove_scratch(self) -> None:
        """Remove what the engine, which has ended, has left behind."""
        if self.scratch is not None:
            self.scratch.cleanup()


def plan(adapter: Backend, request: LoadRequest, python: str, *, host: str = LOOPBACK) -> EngineLaunch | RemoteEngine:
    """Ask an adapter how to start or reach its engine.

    Raises:
        LoadFailed: no port is free.
        PluginFailure: the adapter broke its contract.
        VlmHyperBenchError: the adapter raised it on purpose.
    """
    try:
        port = _free_port()
    except OSError as error:
        raise LoadFailed(f"The engine cannot be started: {error}.") from error
    try:
        return adapter.plan_engine(request, port=port, python=python, host=host)
    except VlmHyperBenchError as error:
        raise without_secrets(error, request.env.values()) from None  # a cause would be shown as it was
    except Exception as error:  # noqa: BLE001 - the adapter's own code runs here, and may raise anything
        failure = PluginFailure(f"The adapter {request.backend_class!r} failed to plan its engine: {error!r}.")
        raise without_secrets(failure, request.env.values()) from None


async def start(
    environment: EngineEnvironment, adapter: Backend, request: LoadRequest, launch: EngineLaunch
) -> Started:
    """Start an engine, or the launcher of its environment, which is told what to start once it has said where.

    Raises:
        LoadFailed: the launcher has no place for the engine.
        NotFound: the program does not exist.
        OSError: the process cannot be started.
        VlmHyperBenchError: the adapter's plan for the launcher's host failed.
    """
    if not environment.launcher:
        scratch = TemporaryDirectory(prefix="vlmhb-engine-", ignore_cleanup_errors=True)
        try:
            child = await start_child(
                launch.argv,
                env={"TMPDIR": scratch.name, **environment.variables, **request.env, **launch.env},
                inherited=environment.inherited,
                stdin=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.STDOUT,
            )
        except BaseException:
            scratch.cleanup()
            raise
        return Started(child=child, launch=launch, scratch=scratch)
    needed = [*request.files.values(), str(_code_of(adapter))]
    child = await start_child(
        [*environment.launcher, *needed], env=environment.variables, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(request.load_timeout_s):
            placed = await _placed(child)
        planned = plan(adapter, request, environment.python, host=str(placed["host"]))
        if not isinstance(planned, EngineLaunch):
            raise PluginFailure(f"The adapter {request.backend_class!r} plans another engine for another host.")
        variables = {**environment.variables, **request.env, **planned.env}
        engine = child_environment(variables, inherited=environment.inherited)
        order = {"argv": planned.argv, "env": engine, "url": planned.url}
        child.stdin.write(json.dumps(order).encode() + b"\n")
        await child.stdin.drain()
    except TimeoutError as error:
        await child.stop()
        message = f"The environment of the engine was not ready within {request.load_timeout_s:g} s."
        raise LoadFailed(message, cure=LOAD_LONGER, code="load_timeout") from error
    except BaseException:
        await child.stop()
        raise
    placement = Placement(
        pid=placed.get("pid"), packages=placed.get("packages"), environment=placed.get("environment", {})
    )
    return Started(child=child, launch=planned, placement=placement)


async def _placed(child: Child) -> dict[str, Any]:
    """Read where the launcher places the engine; other output before that is shown if it fails."""
    lines: list[str] = []
    while line := await child.stdout.readline():
        text = line.decode("utf-8", "replace").rstrip()
        lines = [*lines[-_MAX_LINES:], text]
        try:
            answer = json.loads(text)
        except ValueError:
            continue
        if isinstance(answer, dict) and isinstance(answer.get("host"), str):
            return answer
        if isinstance(answer, dict) and isinstance(answer.get("error"), str):
            raise LoadFailed(process_masker.mask(answer["error"]), cure=answer.get("cure", ""), code=answer.get("code"))
    output = process_masker.mask("\n".join(lines))[-4000:]
    raise LoadFailed(f"The launcher of the engine's environment ended with status {await child.wait()}:\n{output}")


def _code_of(adapter: Backend) -> Path:
    """Return the folder of an adapter's package, or its file, because an engine may run a part of it."""
    module = sys.modules[type(adapter).__module__.partition(".")[0]]
    path = Path(module.__file__ or "")
    return path.parent if hasattr(module, "__path__") else path


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
