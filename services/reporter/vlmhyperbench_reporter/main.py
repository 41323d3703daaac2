"""The reporting worker: REPORT jobs of runs and experiments, until SIGTERM."""

from __future__ import annotations

import asyncio

from vlmhyperbench.domain.states import JobKind
from vlmhyperbench.logs import configure_logging
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.supervisor import run_worker
from vlmhyperbench_reporter.reporting import handle_report

HANDLERS = {JobKind.REPORT: handle_report}


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    configure_logging("reporter")
    asyncio.run(run_worker(Settings.load(), kind="reporting", handlers=HANDLERS))
