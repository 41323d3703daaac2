"""`/health` and `/ready`: the only routes that need no key; they disclose nothing else."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter, Response

from vlmhyperbench.errors import Unavailable
from vlmhyperbench.wire.health import Health, Ready
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import RuntimeOf
from vlmhyperbench_api.security import PUBLIC

router = APIRouter(tags=["health"], route_class=StrictRoute)


@router.get("/health", dependencies=[PUBLIC])
async def health() -> Health:
    """Report that the API process is alive."""
    return Health(version=version("vlmhyperbench-api"))


@router.get("/ready", dependencies=[PUBLIC], responses={503: {"model": Ready}})
async def ready(runtime: RuntimeOf, response: Response) -> Ready:
    """Report whether runs are accepted, which needs the database; without the bus they only start later."""
    try:
        await runtime.database.check()
        has_database = True
    except Unavailable:
        has_database = False
    checks = {"database": has_database, "bus": await runtime.bus.is_up()}
    response.status_code = 200 if has_database else 503
    return Ready(status="ready" if has_database else "not_ready", checks=checks)
