"""Start the scheduler: `python -m vlmhyperbench_scheduler`."""

from __future__ import annotations

import asyncio

from vlmhyperbench.logs import configure_logging
from vlmhyperbench.queues.ringing import Bell
from vlmhyperbench.runtime import open_runtime
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.signals import open_stop
from vlmhyperbench_scheduler.leadership import Leadership
from vlmhyperbench_scheduler.loop import Loop


def main() -> None:
    """Read the settings, which asserts the timers' inequalities, and tick until SIGTERM or SIGINT."""
    configure_logging("scheduler")
    asyncio.run(serve(Settings.load()))


async def serve(settings: Settings) -> None:
    """Run the loop until a signal ends it."""
    async with open_runtime(settings, name="scheduler") as runtime, open_stop() as stop:
        bell = Bell(settings.redis_url.get_secret_value())
        leadership = Leadership(settings.database_url.get_secret_value())
        await Loop(runtime, bell, leadership).run(stop)
        bell.close()
