"""The doorbell: a Celery process of its own that forwards each ring to the worker's supervisor, and does nothing else.

It rings once by itself when it listens: until then the supervisor looks often.

`python -m vlmhyperbench.worker.doorbell SOCKET QUEUE`, with the broker's URL in `VLMHB_DOORBELL_REDIS_URL`.
"""

from __future__ import annotations

import os
import socket
import sys
import warnings
from contextlib import suppress

from celery.platforms import SecurityWarning
from celery.signals import worker_ready

from vlmhyperbench.queues.app import make_app
from vlmhyperbench.queues.contracts import DOORBELL_URL, RING


def forward(path: str, job_id: str = "") -> None:
    """Send a job's id to the supervisor's socket; a supervisor that is away looks by itself when it is back."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door, suppress(OSError):
        door.setblocking(False)
        door.sendto(job_id.encode()[:100], path)


def main() -> None:
    """Listen on the worker's private queue until the parent dies."""
    path, queue = sys.argv[1:3]
    warnings.simplefilter("ignore", SecurityWarning)  # it warns root of pickle, which this app refuses anyway
    app = make_app(os.environ.pop(DOORBELL_URL))

    def ring(job_id: object = "", *_: object, **__: object) -> None:
        forward(path, str(job_id))

    def listens(**_: object) -> None:
        forward(path)

    app.task(ring, name=RING, ignore_result=True)
    worker_ready.connect(listens, weak=False)
    app.worker_main(
        [
            "worker",
            "--pool=solo",
            "--concurrency=1",
            f"--queues={queue}",
            f"--hostname=doorbell.{os.getpid()}@%h",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
            "--loglevel=ERROR",
        ]
    )


if __name__ == "__main__":
    main()
