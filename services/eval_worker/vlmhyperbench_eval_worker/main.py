"""Start the evaluation worker: `python -m vlmhyperbench_eval_worker`."""

from __future__ import annotations

import asyncio
import os

from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.runtime import service
from vlmhyperbench.worker.supervisor import run_worker
from vlmhyperbench_eval_worker.combining import handle_combine
from vlmhyperbench_eval_worker.evaluation import handle_score
from vlmhyperbench_eval_worker.importing import handle_import
from vlmhyperbench_eval_worker.indexing import handle_index

HANDLERS = {
    StepKind.INDEX: handle_index,
    StepKind.IMPORT: handle_import,
    StepKind.COMBINE: handle_combine,
    StepKind.SCORE: handle_score,
}
MAX_CHILDREN = 4
SLOTS_PER_CHILD = 4
"""A job that watches a run with a stop rule computes little, so further jobs can run at the same time."""


def main() -> None:
    """Run INDEX, IMPORT, COMBINE and SCORE jobs until SIGTERM or SIGINT."""
    children = max(1, min(MAX_CHILDREN, len(os.sched_getaffinity(0))))
    slots = children * SLOTS_PER_CHILD
    with service("eval-worker", main.__doc__) as settings:
        asyncio.run(run_worker(settings, kind="evaluation", handlers=HANDLERS, slots=slots, children=children))
