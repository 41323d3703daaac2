"""The client of the child that writes request bodies with the target's adapter, which is not imported here."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlmhyperbench.environments.base import GATEWAY_VARIABLES
from vlmhyperbench.errors import STORAGE_FULL
from vlmhyperbench.processes import Child, start_child
from vlmhyperbench_sdk.errors import InvalidInput, PluginFailure, Unavailable
from vlmhyperbench_sdk.gateway import EngineEnvironment


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyOrder:
    """The requests whose bodies are to be written, and the file for them."""

    backend_class: str
    requests: Path
    """One rendered request per line."""
    out: Path
    """File of all bodies; a table of their offsets is written next to it."""
    images: Mapping[str, Path]
    """SHA-256 of an image → its file."""


class BodyWriter:
    """Starts its child for the first order, and again if the child has ended."""

    def __init__(self, environment: EngineEnvironment) -> None:
        self._environment = environment
        self._child: Child | None = None
        self._lock = asyncio.Lock()

    async def write(self, order: BodyOrder) -> None:
        """Write the body of every request with the adapter's `to_engine`.

        If the caller is cancelled, the child is ended, and the next order starts another.

        Raises:
            InvalidInput: the engine cannot do what a request asks, or the adapter is not allowed.
            PluginFailure: the adapter broke its contract.
            Unavailable: the child ended.
        """
        async with self._lock:
            child = await self._running_child()
            try:
                answer = await _exchange(child, order)
            except BaseException:
                # A late answer of this child would be taken for the answer to the next order. Nothing is awaited before
                # the kill, because a second cancel would leave the child.
                self._child = None
                child.send_signal(signal.SIGKILL)
                await child.wait()
                raise
        if answer["event"] != "done":
            raise _failure(answer, order)

    async def close(self) -> None:
        """End the child."""
        if self._child is not None:
            await self._child.stop(term_s=2)

    async def _running_child(self) -> Child:
        if self._child is None or self._child.returncode is not None:
            environment = self._environment
            self._child = await start_child(
                environment.module("vlmhyperbench_gateway.bodies"),
                env=environment.to_variables(),
                inherited=GATEWAY_VARIABLES if environment.is_gateway_apart else None,
            )
        return self._child


async def _exchange(child: Child, order: BodyOrder) -> dict[str, Any]:
    """Send an order to the child and return its answer.

    Raises:
        Unavailable: the child ended.
    """
    line = {
        "backend_class": order.backend_class,
        "requests": str(order.requests),
        "out": str(order.out),
        "images": {digest: str(path) for digest, path in order.images.items()},
    }
    try:
        child.stdin.write(json.dumps(line).encode() + b"\n")
        await child.stdin.drain()
        reply = await child.stdout.readline()
    except ConnectionError as error:
        raise Unavailable("The process that writes request bodies ended.") from error
    if not reply:
        raise Unavailable("The process that writes request bodies ended.")
    answer: dict[str, Any] = json.loads(reply)
    return answer


def _failure(answer: Mapping[str, Any], order: BodyOrder) -> InvalidInput | PluginFailure | Unavailable:
    if answer["code"] in {STORAGE_FULL, Unavailable.code}:
        return Unavailable(f"The request bodies cannot be written: {answer['message']}", code=answer["code"])
    which = "A request" if answer["ordinal"] is None else f"Request {answer['ordinal']}"
    message = f"{which} of this job cannot be sent to {order.backend_class}: {answer['message']}"
    if answer["code"] == PluginFailure.code:
        return PluginFailure(message)
    return InvalidInput(message, code=answer["code"])
