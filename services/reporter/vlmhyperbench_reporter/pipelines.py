"""Read what the models of a pipeline answered in a run, and the peak memory of their engines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

import polars

from vlmhyperbench.db import evidence, memory
from vlmhyperbench.db.views import PhaseView, RunView
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.failures import NOT_SENT
from vlmhyperbench.domain.identity import names_of_devices
from vlmhyperbench.domain.needs import UNKNOWN, MemoryNeed, devices_of
from vlmhyperbench.domain.pipelines import Key, PipelineTarget, asked_model, asked_models
from vlmhyperbench.domain.specs import Target
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
    asked = facts.filter(
        polars.col("error_code").is_in(list(NOT_SENT)).fill_null(value=False).not_()
    )  # nothing was asked in the others
    return PipelineRows(
        facts=asked,
        keys=keys,
        samples=samples_of(facts, pipeline, keys),
        peak_bytes=await _peaks(runtime, pipeline, asked, keys),
    )


async def _peaks(
    runtime: Runtime, pipeline: PipelineTarget, facts: polars.DataFrame, keys: Mapping[int, Key]
) -> dict[Key, int]:
    """Return what each model took on a device on which it answered, as far as claims measured it alone."""
    targets = {asked.key: asked.model.target for asked in asked_models(pipeline)}
    digests = {key: digest_of(targets[key]) for key in keys.values()}
    claims_of = {
        key: facts.filter(polars.col("phase") == no)["claim_id"].unique().to_list() for no, key in keys.items()
    }
    wanted = sorted({UUID(claim_id) for claim_ids in claims_of.values() for claim_id in claim_ids})
    async with runtime.database.transaction() as session:
        records = await evidence.of_claims(session, wanted) if wanted else []
        needs = await memory.needs_of(session, set(digests.values()), margin=1.0)
    machines = {str(record.claim.id): record.claim.machine for record in records}
    peaks = {
        key: peak_on([machines[claim_id] for claim_id in claims_of[key]], needs.get(digest, UNKNOWN), targets[key])
        for key, digest in digests.items()
    }
    return {key: peak for key, peak in peaks.items() if peak is not None}


def peak_on(machines: Iterable[JsonObject], need: MemoryNeed, target: Target) -> int | None:
    """Return the largest measured memory of a target on all of its devices, on machines like these; None if unknown."""
    names = {name for machine in machines for name in names_of_devices(machine)}
    sizes = [size for name, size in need.peaks.items() if name in names]
    return max(sizes) * devices_of(target) if sizes else None
