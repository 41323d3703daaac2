"""Notify workers of new assignments, best effort: workers also poll, so a lost message only delays them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from uuid import UUID

import structlog
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from vlmhyperbench.queues.app import make_app
from vlmhyperbench.queues.contracts import RING

REST_S = 5.0
"""After a failure nothing is sent for this long."""

_LOG = structlog.get_logger(__name__)


class Bell:
    """Sends notifications to workers; a broker that is down costs one short attempt every few seconds."""

    def __init__(self, redis_url: str) -> None:
        self._app = make_app(redis_url)
        self._silent_until = float("-inf")

    async def ring(self, rings: Iterable[tuple[str, UUID]]) -> int:
        """Send (queue, job id) pairs in a thread and return how many were sent."""
        wanted = list(rings)
        if not wanted or time.monotonic() < self._silent_until:
            return 0
        return await asyncio.to_thread(self._send, wanted)

    def close(self) -> None:
        """Close the connection."""
        self._app.close()

    def _send(self, wanted: list[tuple[str, UUID]]) -> int:
        sent = 0
        try:
            for queue, job_id in wanted:
                self._app.send_task(RING, args=(str(job_id),), queue=queue, ignore_result=True, retry=False)
                sent += 1
        except (OperationalError, RedisError, OSError) as error:
            self._silent_until = time.monotonic() + REST_S
            _LOG.warning("bell.away", reason=str(error))
        return sent
