"""`/runs/{run_id}/manifest`: what a run really used, as its claims have recorded it so far."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter

from vlmhyperbench.db import evidence, runs
from vlmhyperbench.db.evidence import ClaimOfJob
from vlmhyperbench.errors import NotFound
from vlmhyperbench.facts.pages import reused_claim_ids
from vlmhyperbench.summaries.manifest import ClaimUse, manifest_of
from vlmhyperbench.wire.manifests import RunManifest
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import RuntimeOf
from vlmhyperbench_api.ids import RunId
from vlmhyperbench_api.security import Principal, requires

router = APIRouter(prefix="/runs", tags=["runs"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("run:read")]


@router.get("/{run_id}/manifest")
async def get_manifest(run_id: RunId, principal: Reader, runtime: RuntimeOf) -> RunManifest:
    """Return what a run really used: weights, engines, environments, machines, and its configuration with origins.

    It has what is recorded so far; the artifact `manifest.json` of a report has what was recorded until then.

    Raises:
        NotFound: there is no such run.
        NotReady: a run whose rows it reuses is cold.
    """
    async with runtime.database.snapshot() as session:
        run = await runs.get(session, run_id, project_id=principal.project_id)
        if run is None:
            raise NotFound(f"There is no run {run_id}.", cure="List the runs to see which there are.")
        claims = [*await evidence.of_run(session, run_id), *await evidence.of_reused_answers(session, run_id)]
        in_files = await reused_claim_ids(session, runtime.storage, run_id)
        missing = in_files - {record.claim.id for record in claims}
        claims += await evidence.of_claims(session, sorted(missing))
    about = {
        "run_id": str(run.id),
        "name": run.name,
        "spec_digest": run.spec_digest,
        "sample_manifest": run.manifest_id,
        "example_manifest": run.examples_id,
        "platform_version": version("vlmhyperbench"),
    }
    origins = None if run.origins is None else {path: str(origin) for path, origin in run.origins.items()}
    manifest = manifest_of(
        run.pinned_spec(), [_use(record) for record in claims], run=about, origins=origins, retunes=run.retunes or ()
    )
    return RunManifest.model_validate(manifest)


def _use(record: ClaimOfJob) -> ClaimUse:
    claim = record.claim
    return ClaimUse(
        id=str(claim.id),
        job=record.job.kind,
        host=claim.host,
        machine=claim.machine,
        engine=claim.engine,
        environment=claim.environment,
        packages=claim.packages,
        measured_at=claim.measured_at,
    )
