"""Contract of the broker: the message's name, its argument, and the queue of each worker."""

from __future__ import annotations

RING = "vlmhyperbench.ring"
"""Name of the only message; its one argument is a job's id."""

KEY_PREFIX = "vlmhb:queue:"
"""Prefix of every key of the broker, which separates them from the bus."""

DOORBELL_URL = "VLMHB_DOORBELL_REDIS_URL"
"""Environment variable that passes the broker's URL to a doorbell, which removes it at once."""


def queue_of(worker_kind: str, worker_name: str) -> str:
    """Return the private queue of a worker; it stays the same across restarts of the worker."""
    return f"worker.{worker_kind}.{worker_name}"
