"""`/evaluations`: evaluation identities (everything that determines a quality number) by their short ids."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from vlmhyperbench.db import measures
from vlmhyperbench.errors import NotFound
from vlmhyperbench.wire.evaluations import Evaluation
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import Session
from vlmhyperbench_api.presenting import json_of
from vlmhyperbench_api.security import Principal, requires

router = APIRouter(prefix="/evaluations", tags=["evaluations"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("run:read")]
EvaluationId = Annotated[str, Path(pattern="^e[0-9a-f]{12}$")]


@router.get("/{evaluation_id}")
async def get_evaluation(evaluation_id: EvaluationId, principal: Reader, session: Session) -> Evaluation:
    """Return the components of an evaluation identity."""
    manifest = await measures.of_evaluation(session, evaluation_id, project_id=principal.project_id)
    if manifest is None:
        raise NotFound(f"There is no evaluation {evaluation_id}.", cure="Take an id from a report, or from a result.")
    components = json_of(manifest.metrics[0])["evaluation"]
    return Evaluation.model_validate({"id": evaluation_id, "components": components, "run_id": manifest.run_id})
