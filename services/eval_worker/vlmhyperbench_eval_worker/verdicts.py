"""Read what a judge said of a run's answers, and add it to them for the metric that values it."""

from __future__ import annotations

import json
from collections import defaultdict

import polars

from vlmhyperbench.db import phases
from vlmhyperbench.domain.judging import METRIC, judging_of, place_of
from vlmhyperbench.domain.specs import MetricSpec
from vlmhyperbench.domain.states import PhaseState
from vlmhyperbench.errors import NotFound
from vlmhyperbench.facts.read import read_facts
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_eval_worker.measuring import VERDICTS


async def read_verdicts(job: ClaimedJob, metric: MetricSpec) -> polars.DataFrame:
    """Read the facts of a judge's phase, with texts.

    Raises:
        NotFound: the judge was never asked.
    """
    label = metric.label
    async with job.runtime.database.transaction() as session:
        found = await phases.of_run(session, job.run_id)
    phase = next((phase for phase in found if phase.params.get(METRIC) == label), None)
    if phase is None:
        raise NotFound(f"The judge {label} was never asked about the run {job.run_id}.")
    # A phase counts as a whole: of a judge that failed on the way no verdict does.
    numbers = [] if phase.state is PhaseState.VOID else [phase.no]
    return await read_facts(job.runtime.database, job.runtime.storage, job.run_id, phases=numbers, payload=("text",))


def with_verdicts(
    rows: polars.DataFrame, said: polars.DataFrame, metric: MetricSpec, *, answers: int
) -> polars.DataFrame:
    """Add the verdicts on each answer as JSON in a column; null where there was no answer to judge."""
    judging = judging_of(metric)
    by_answer: dict[int, list[dict[str, object]]] = defaultdict(list)
    for ordinal, status, text in said.select("ordinal", "status", "text").iter_rows():
        place = place_of(judging, ordinal, answers)
        heard = (text or "") if status == "ok" else None
        by_answer[place.answer].append({"order": place.order, "repeat": place.repeat, "text": heard})
    verdicts = [
        json.dumps(by_answer[ordinal]) if status == "ok" else None
        for ordinal, status in rows.select("ordinal", "status").iter_rows()
    ]
    return rows.with_columns(polars.Series(VERDICTS, verdicts, dtype=polars.String))
