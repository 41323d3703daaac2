"""Rings: the content of the message, and the cost of a broker that is down."""

from __future__ import annotations

import base64
import json
from uuid import UUID

import pytest
import redis

from tests.support.processes import PATIENCE_S
from vlmhyperbench.queues import ringing
from vlmhyperbench.queues.contracts import KEY_PREFIX, RING, queue_of
from vlmhyperbench.queues.ringing import Bell

pytestmark = pytest.mark.anyio

JOB = UUID(int=7)


async def test_a_ring_carries_the_jobs_id_and_nothing_else(redis_url: str) -> None:
    bell = Bell(redis_url)
    queue = queue_of("inference", "w")
    assert await bell.ring([(queue, JOB)]) == 1
    bell.close()
    with redis.Redis.from_url(redis_url) as client:
        message = json.loads(client.lpop(f"{KEY_PREFIX}{queue}"))
    args, kwargs, _ = json.loads(base64.b64decode(message["body"]))
    assert (message["headers"]["task"], args, kwargs) == (RING, [str(JOB)], {})
    assert message["content-type"] == "application/json"


async def test_an_empty_list_of_rings_sends_nothing(redis_url: str) -> None:
    bell = Bell("redis://127.0.0.1:1/0")
    assert await bell.ring([]) == 0
    bell.close()


async def test_a_broker_that_is_down_is_not_called_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ringing, "REST_S", PATIENCE_S)
    bell = Bell("redis://127.0.0.1:1/0")
    assert await bell.ring([("q", JOB)]) == 0
    with pytest.raises(StopIteration) as returned:  # at once, without a thread to wait for
        bell.ring([("q", JOB)] * 1000).send(None)
    assert returned.value.value == 0
    bell.close()
