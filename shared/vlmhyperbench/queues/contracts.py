"""What travels through the broker: the name of the ring, its argument, and which queue is whose."""

from __future__ import annotations

RING = "vlmhyperbench.ring"
"""The only message there is; its one argument is a job's id."""

KEY_PREFIX = "vlmhb:queue:"
"""Every key of the broker begins so, which keeps them apart from the bus."""

DOORBELL_URL = "VLMHB_DOORBELL_REDIS_URL"
"""Environment variable that gives a doorbell the broker's URL; it forgets it at once."""


def queue_of(worker_kind: str, worker_name: str) -> str:
    """Return the private queue of a worker; the next boot of the same worker takes it over."""
    return f"worker.{worker_kind}.{worker_name}"
