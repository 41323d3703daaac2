"""The reporting worker: REPORT jobs of runs and experiments, and the tiers of stored data, until SIGTERM."""

from __future__ import annotations

import asyncio

from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.logs import get_logger
from vlmhyperbench.runtime import service
from vlmhyperbench.settings import Settings
from vlmhyperbench.tiers.housekeeping import keep_house
from vlmhyperbench.worker.supervisor import run_worker
from vlmhyperbench_reporter.reporting import handle_report

_LOG = get_logger(__name__)
_AGAIN_S = 60.0
"""Pause after housekeeping failed in a way that nobody foresaw."""

HANDLERS = {StepKind.REPORT: handle_report}


def main() -> None:
    """Take REPORT jobs until SIGTERM or SIGINT."""
    with service("reporter", main.__doc__) as settings:
        asyncio.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    """Run the worker, and keep house beside it: of all reporting workers one does."""
    failure: VlmHyperBenchError | None = None
    async with asyncio.TaskGroup() as group:
        house = group.create_task(_keep_house(settings))
        try:
            await run_worker(settings, kind="reporting", handlers=HANDLERS)
        except VlmHyperBenchError as error:  # raised outside of the group, which would wrap it
            failure = error
        house.cancel()
    if failure is not None:
        raise failure


async def _keep_house(settings: Settings) -> None:
    """Keep house as long as the worker runs; whatever goes wrong there must not end the worker."""
    while settings.database_url.get_secret_value():
        try:
            await keep_house(settings)
        except Exception:  # noqa: BLE001 - the worker goes on whatever the moves of stored data raise
            _LOG.exception("housekeeping.failed")
        await asyncio.sleep(_AGAIN_S)
