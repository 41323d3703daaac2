"""`python -m vlmhyperbench.local.supervisor.agent`: keep the inference workers of a machine that joins a stack running.

Each worker is told its share of the machine, and is started again if it ends. SIGTERM or Ctrl-C lets all of them
finish the requests in flight, then ends them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from vlmhyperbench.db.refusals import refusal
from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.local.supervisor.forked import ForkServer
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.local.supervisor.services import METRICS_PORT, Service, inference_service, metrics_ports
from vlmhyperbench.local.supervisor.supervised import SupervisedService
from vlmhyperbench.runtime import REFUSED
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.shares import free_shares
from vlmhyperbench.worker.signals import open_stop

log = logging.getLogger(__name__)

SETUP = 3
"""Exit status for a reason that the operator can fix."""


def main() -> int:
    """Run one worker for each share of this machine until a signal ends them."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        settings = Settings.load()
        home = Home(settings.home)
        home.prepare()
        shares = free_shares(settings, name=settings.worker_name)
    except VlmHyperBenchError as error:
        print(error, file=sys.stderr)
        return SETUP
    ends_with = frozenset({REFUSED} if settings.until_idle_s is None else {REFUSED, 0})
    services = [replace(inference_service(share.name, share.variables), ends_with=ends_with) for share in shares]
    if REFUSED not in asyncio.run(keep(home, services)):
        return 0
    print(refusal(settings.database_url.get_secret_value()), file=sys.stderr)
    return REFUSED


async def keep(home: Home, services: Sequence[Service]) -> set[int | None]:
    """Keep services running until SIGTERM or SIGINT, or until all have ended; return their last exit codes."""
    # The settings of a machine that joins are in its environment; each goes to the workers through a pipe.
    settings = {name: value for name, value in os.environ.items() if name.upper().startswith("VLMHB_")}
    ports = metrics_ports([services], settings.get(METRICS_PORT, ""))
    fork_server = ForkServer(home.log_of("fork-server"))
    workers = [
        SupervisedService(
            service,
            fork_server=fork_server,
            env=settings | ports.get(service.name, {}) | {"PYTHONUNBUFFERED": "1"},
            log_file=home.log_of(service.name),
            changed=lambda: None,
        )
        for service in services
    ]
    async with open_stop() as stop:
        for worker in workers:
            log.info("Starting %s; its log is %s.", worker.name, home.log_of(worker.name))
        kept = asyncio.gather(*(worker.keep() for worker in workers))
        kept.add_done_callback(lambda _: stop.set())  # all have ended by themselves
        await stop.wait()
        log.info("Stopping %d workers; they finish the requests in flight.", len(workers))
        await asyncio.gather(*(worker.stop() for worker in workers))
        await kept
    await fork_server.stop()
    return {worker.status for worker in workers}


if __name__ == "__main__":
    sys.exit(main())
