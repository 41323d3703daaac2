"""A simulated target, and what tests wait for."""

import asyncio
from contextlib import suppress

import psutil

from tests.support.processes import PATIENCE_S
from vlmhyperbench.domain.specs import ModelTarget

MARK = "VLMHB_LABEL_WORKER"


def target(**params):
    return ModelTarget(
        model="simulated", version="1.0.0", backend="simulated", backend_class="simulated", engine_params=params
    )


async def until_missed(serving):
    async with asyncio.timeout(PATIENCE_S):
        while await serving.is_alive():  # noqa: ASYNC110 - a killed process is gone a moment later
            await asyncio.sleep(0.01)


def children(module):
    running = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # it ended meanwhile
            if module in child.cmdline():
                running.append(child)
    return running
