"""`/doctor`: what `vlmhyperbench doctor` checks, of the API's machine and of the platform."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter

from vlmhyperbench.local.supervisor.home import NEEDED_BYTES
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.wire.health import Diagnosis, DiagnosisCheck
from vlmhyperbench.worker.checks import Check, python_check, registries_check, space_check
from vlmhyperbench.worker.diagnosis import fleet_checks, part_checks
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.catalogue import Registries
from vlmhyperbench_api.dependencies import RegistriesOf, RuntimeOf
from vlmhyperbench_api.security import Principal, requires

router = APIRouter(tags=["health"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("worker:read")]
_checking = asyncio.Semaphore(2)
"""Diagnoses at the same time: each opens connections of its own, as a worker that starts does."""


@router.get("/doctor")
async def diagnose(principal: Reader, runtime: RuntimeOf, registries: RegistriesOf) -> Diagnosis:
    """Check the API's machine and the platform as `vlmhyperbench doctor` does; each failed check names its cure."""
    async with _checking:
        checks = await _checks(runtime, registries, principal.project_id)
    return Diagnosis(
        version=version("vlmhyperbench"),
        is_ok=all(check.is_ok for check in checks),
        checked_at=datetime.now(UTC),
        checks=[DiagnosisCheck.model_validate(asdict(check)) for check in checks],
    )


async def _checks(runtime: Runtime, registries: Registries, project_id: str) -> list[Check]:
    settings = runtime.settings
    parts = await part_checks(settings)
    stored: list[Check] = []
    if all(check.is_ok for check in parts if check.name == "database"):
        stored = await fleet_checks(runtime.database, settings, version=version("vlmhyperbench"))
        stored.append(registries_check(await registries.catalogue(project_id)))
    space = await asyncio.to_thread(space_check, "disk", settings.home, needed_bytes=NEEDED_BYTES)
    return [*parts, *stored, python_check(), space]
