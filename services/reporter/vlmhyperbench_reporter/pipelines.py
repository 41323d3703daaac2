"""Read what the models of a pipeline answered in a run, and the peak memory of their engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import polars

from vlmhyperbench.db import evidence
from vlmhyperbench.db.views import PhaseView, RunView
from vlmhyperbench.domain.failures import UNREADABLE_SAMPLE
from vlmhyperbench.domain.pipelines import Key, PipelineTarget, asked_model
from vlmhyperbench.domain.states import PhaseState
from vlmhyperbench.facts.read import read_facts
from vlmhyperbench.facts.replies import PAYLOAD, PHASE_KIND, samples_of
from vlmhyperbench.reports.bundles import PipelineRows
from vlmhyperbench.runtime import Runtime
from vlmhyperbench_sdk.types import JsonObject


async def read_pipeline(runtime: Runtime, run: RunView, run_phases: Sequence[PhaseView]) -> PipelineRows | None:
    """Return the rows of the models; None where the run's target is no pipeline.

    Raises:
        NotFound, NotReady, Damaged, Unavailable: as `read_facts`.
    """
    pipeline = run.pinned_spec().target
    if not isinstance(pipeline, PipelineTarget):
        return None
    keys: dict[int, Key] = {
        phase.no: asked_model(pipeline, phase.params).key
        for phase in run_phases
        if phase.kind == PHASE_KIND and phase.state is not PhaseState.VOID
    }
    facts = await read_facts(runtime.database, runtime.storage, run.id, phases=list(keys), payload=PAYLOAD)
    asked = facts.filter(polars.col("error_code").ne_missing(UNREADABLE_SAMPLE))  # nothing was asked in the others
    return PipelineRows(
        facts=asked,
        keys=keys,
        samples=samples_of(facts, pipeline, keys),
        peak_bytes=await _peaks(runtime, asked, keys),
    )


async def _peaks(runtime: Runtime, facts: polars.DataFrame, keys: Mapping[int, Key]) -> dict[Key, int]:
    claims_of = {
        key: facts.filter(polars.col("phase") == no)["claim_id"].unique().to_list() for no, key in keys.items()
    }
    wanted = sorted({UUID(claim_id) for claim_ids in claims_of.values() for claim_id in claim_ids})
    async with runtime.database.transaction() as session:
        records = await evidence.of_claims(session, wanted) if wanted else []
    peaks = {str(record.claim.id): _peak(record.claim.resources or {}) for record in records}
    known = {key: [peaks.get(claim_id) or 0 for claim_id in claim_ids] for key, claim_ids in claims_of.items()}
    return {key: max(sizes) for key, sizes in known.items() if any(sizes)}


def _peak(resources: JsonObject) -> int | None:
    """Return the memory that an engine took: of its accelerators where it used any, else of its process."""
    before, peak, process = (
        resources.get(name)
        for name in (
            "accelerator_memory_before_load_bytes",
            "accelerator_memory_used_bytes_peak",
            "engine_rss_bytes_peak",
        )
    )
    if isinstance(before, int | float) and isinstance(peak, int | float) and peak > before:
        return int(peak - before)
    return int(process) if isinstance(process, int | float) else None
