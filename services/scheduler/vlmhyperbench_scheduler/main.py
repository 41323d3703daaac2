"""Start the scheduler: `python -m vlmhyperbench_scheduler`."""

from __future__ import annotations

import asyncio
import gc

from vlmhyperbench.db.leadership import Leadership
from vlmhyperbench.queues.ringing import Bell
from vlmhyperbench.runtime import open_runtime, service
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.signals import open_stop
from vlmhyperbench_scheduler.loop import Loop


def main() -> None:
    """Assign jobs to workers until SIGTERM or SIGINT."""
    with service("scheduler", main.__doc__) as settings:
        asyncio.run(serve(settings))


async def serve(settings: Settings) -> None:
    """Run the loop until a signal ends it."""
    async with open_runtime(settings, name="scheduler") as runtime, open_stop() as stop:
        bell = Bell(settings.redis_url.get_secret_value())
        leadership = Leadership(settings.database_url.get_secret_value())
        gc.freeze()  # what is there from the start on stays: looking through it now and then would take a tick's time
        await Loop(runtime, bell, leadership).run(stop)
        bell.close()
