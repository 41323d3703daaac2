"""The doorbell: a separate Celery process that only forwards each ring to the worker's supervisor.

It rings once when it starts to listen; until then the supervisor polls more often.

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
    """Send a job's id to the supervisor's socket; a supervisor that does not listen polls when it is back."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client, suppress(OSError):
        client.setblocking(False)
        client.sendto(job_id.encode()[:100], path)


def main() -> None:
    """Listen to the worker's private queue until the parent process dies."""
    path, queue = sys.argv[1:3]
    warnings.simplefilter("ignore", SecurityWarning)  # it warns root about pickle, which this app refuses
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
