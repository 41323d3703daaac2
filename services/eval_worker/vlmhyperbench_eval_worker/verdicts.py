"""Read the verdicts of a judge on a run's answers, and add them to the rows that its metric scores."""

from __future__ import annotations

import json
from collections import defaultdict

import polars

from vlmhyperbench.db import phases
from vlmhyperbench.domain.judging import METRIC, judging_of, verdict_request
from vlmhyperbench.domain.specs import MetricSpec
from vlmhyperbench.domain.states import PhaseState
from vlmhyperbench.errors import NotFound
from vlmhyperbench.facts.read import read_facts
from vlmhyperbench.scoring.measured import VERDICTS
from vlmhyperbench.worker.claims import ClaimedJob


async def read_verdicts(job: ClaimedJob, metric: MetricSpec) -> polars.DataFrame:
    """Read the facts of a judge's phase, with their texts.

    Raises:
        NotFound: the judge has no phase in this run.
    """
    label = metric.label
    async with job.runtime.database.transaction() as session:
        run_phases = await phases.of_run(session, job.run_id)
    phase = next((phase for phase in run_phases if phase.params.get(METRIC) == label), None)
    if phase is None:
        raise NotFound(f"The judge {label} was never asked about the run {job.run_id}.")
    # A phase counts as a whole, so a judge that failed has no verdicts.
    numbers = [] if phase.state is PhaseState.VOID else [phase.no]
    return await read_facts(job.runtime.database, job.runtime.storage, job.run_id, phases=numbers, payload=("text",))


def with_verdicts(
    rows: polars.DataFrame, verdict_rows: polars.DataFrame, metric: MetricSpec, *, answers: int
) -> polars.DataFrame:
    """Add a column with the verdicts on each answer as JSON; null for a row without an answer."""
    judging = judging_of(metric)
    by_answer: dict[int, list[dict[str, object]]] = defaultdict(list)
    for ordinal, status, text in verdict_rows.select("ordinal", "status", "text").iter_rows():
        verdict = verdict_request(judging, ordinal, answers)
        answer = (text or "") if status == "ok" else None
        by_answer[verdict.answer].append({"order": verdict.order, "repeat": verdict.repeat, "text": answer})
    verdicts = [
        json.dumps(by_answer[ordinal]) if status == "ok" else None
        for ordinal, status in rows.select("ordinal", "status").iter_rows()
    ]
    return rows.with_columns(polars.Series(VERDICTS, verdicts, dtype=polars.String))
