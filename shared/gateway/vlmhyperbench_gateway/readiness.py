"""Whether an engine can be asked: a started one is waited for and warmed up, a remote one is probed."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass

from vlmhyperbench.errors import InvalidInput, VlmHyperBenchError
from vlmhyperbench.logs import process_masker
from vlmhyperbench.processes import Child
from vlmhyperbench_gateway.adapters import write_json
from vlmhyperbench_gateway.endings import MemoryKills, Moment, describe_end
from vlmhyperbench_gateway.errors import EngineFailed, LoadFailed
from vlmhyperbench_gateway.launching import Placement
from vlmhyperbench_gateway.output import EngineOutput
from vlmhyperbench_gateway.transport import EngineClient
from vlmhyperbench_sdk.protocols import EngineLaunch
from vlmhyperbench_sdk.types import JsonObject

_POLL_SECONDS = (0.02, 0.25)
"""First and longest pause between two checks of an engine that is starting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A started child, its output and its exit."""

    child: Child
    placement: Placement
    output: EngineOutput
    exited: asyncio.Task[int]
    memory_kills: MemoryKills

    @property
    def pid(self) -> int:
        """Its first process."""
        return self.placement.pid or self.child.pid

    def describe_end(self, moment: Moment) -> VlmHyperBenchError:
        """Return why its process ended, once it has ended."""
        return describe_end(self.exited.result(), self.output, moment, memory_kills=self.memory_kills.lately())


async def wait_ready(client: EngineClient, launch: EngineLaunch, engine: Engine) -> None:
    """Wait until an engine answers the path of its launch.

    Raises:
        VlmHyperBenchError: it ended, as `Engine.describe_end` says.
    """
    pause, longest = _POLL_SECONDS
    while True:
        try:
            async with client.request("GET", launch.ready_path) as response:
                await response.read()
                if response.status == 200:
                    return
        except EngineFailed as error:
            if engine.exited.done():
                raise engine.describe_end("before it was ready") from error
        await asyncio.wait([engine.exited], timeout=pause)
        if engine.exited.done():
            raise engine.describe_end("before it was ready")
        pause = min(longest, pause * 1.5)


async def warm_up(client: EngineClient, request: JsonObject) -> None:
    """Send the first request, which is slower than others.

    Raises:
        EngineFailed: it was not answered with 200.
    """
    async with client.request("POST", "/v1/chat/completions", write_json(request)) as response:
        body = await response.read()
    if response.status != 200:
        # Masked before it is cut, so that no beginning of a secret stays.
        text = process_masker.mask(body.decode("utf-8", "replace"))[:500]
        raise EngineFailed(f"its warm-up request was answered {response.status}: {text}")


async def probe(client: EngineClient, url: str) -> None:
    """Ask an endpoint for its models, which shows whether it can be reached and takes the key.

    Raises:
        InvalidInput: it refuses the key.
        LoadFailed: it answers with an error of its own.
        EngineFailed: it does not answer.
    """
    async with client.request("GET", "/v1/models") as response:
        body = await response.read()
    if response.status in {401, 403}:
        raise InvalidInput(
            f"The endpoint {url} refuses the key. It said (HTTP {response.status}): “{_sentence(body)}”.",
            code="endpoint_denied",
        )
    if response.status >= 500:
        raise LoadFailed(f"The endpoint {url} answers {response.status}.")


def _sentence(body: bytes) -> str:
    """Return OpenAI's `error.message` of an answer, or the beginning of an answer without one."""
    with suppress(ValueError, KeyError, TypeError):
        message = json.loads(body)["error"]["message"]
        if isinstance(message, str):
            return message[:500]
    return " ".join(body[:500].decode("utf-8", "replace").split())
