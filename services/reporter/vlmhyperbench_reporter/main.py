"""The reporting worker: REPORT jobs of runs and experiments, until SIGTERM."""

from __future__ import annotations

import asyncio

from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.runtime import service
from vlmhyperbench.worker.supervisor import run_worker
from vlmhyperbench_reporter.reporting import handle_report

HANDLERS = {StepKind.REPORT: handle_report}


def main() -> None:
    """Take REPORT jobs until SIGTERM or SIGINT."""
    with service("reporter", main.__doc__) as settings:
        asyncio.run(run_worker(settings, kind="reporting", handlers=HANDLERS))
