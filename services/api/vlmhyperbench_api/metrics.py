"""`/metrics`: the numbers of the whole platform as text for Prometheus, read once for all who ask within seconds."""

from __future__ import annotations

import asyncio
import shutil
import time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlsplit

from fastapi import APIRouter, Response
from starlette.requests import HTTPConnection

from vlmhyperbench.db import platform_numbers
from vlmhyperbench.monitoring.exporting import TEXT
from vlmhyperbench.monitoring.numbers import Number, write_text
from vlmhyperbench.runtime import Runtime
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.security import Principal, requires

router = APIRouter(tags=["health"], route_class=StrictRoute)

FRESH_S = 2.0
"""Time for which an answer is given again: no number of scrapers makes the database work more."""
MAX_SHARE = 0.05
"""Maximum share of the time in which the numbers are read: an answer that took longer to read is given for longer."""


class PlatformMetrics:
    """The last answer and until when it is given again; one reader at a time."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = asyncio.Lock()
        self._fresh_until = float("-inf")
        self._text = b""

    async def text(self) -> bytes:
        """Return the numbers as text.

        Raises:
            Unavailable: the database does not answer.
        """
        async with self._lock:
            begun = time.monotonic()
            if begun > self._fresh_until:
                self._text = await asyncio.to_thread(write_text, await self._numbers())
                now = time.monotonic()
                self._fresh_until = now + max(FRESH_S, (now - begun) / MAX_SHARE)
            return self._text

    async def _numbers(self) -> list[Number]:
        timers = self._runtime.settings.timers
        async with self._runtime.database.transaction() as session:
            numbers = await platform_numbers.read(session, stale_s=timers.stale_worker_s, lease_s=timers.lease_s)
        free_bytes = await asyncio.to_thread(_free_bytes, self._runtime.settings.storage_url)
        return [
            *numbers,
            Number(name="build_info", value=1, labels={"version": version("vlmhyperbench-api")}),
            Number(name="redis_up", value=int(await self._runtime.bus.is_up())),
            *([] if free_bytes is None else [Number(name="storage_free_bytes", value=free_bytes)]),
        ]


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def read_metrics(connection: HTTPConnection, _: Annotated[Principal, requires("metrics:read")]) -> Response:
    """Return the platform's metrics in the text format of Prometheus; the key may be a bearer token."""
    metrics: PlatformMetrics = connection.app.state.metrics
    return Response(await metrics.text(), media_type=TEXT)


def _free_bytes(storage_url: str) -> int | None:
    parts = urlsplit(storage_url)
    if parts.scheme not in {"", "file"}:
        return None
    try:
        return shutil.disk_usage(Path(unquote(parts.path) if parts.scheme else storage_url)).free
    except OSError:
        return None
