"""Turn the signals that end a service into an event."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_NUMBERS = (signal.SIGTERM, signal.SIGINT)


@asynccontextmanager
async def open_stop() -> AsyncIterator[asyncio.Event]:
    """Yield an event that SIGTERM and SIGINT set, for as long as the context lasts."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in _NUMBERS:
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in _NUMBERS:
            loop.remove_signal_handler(number)
