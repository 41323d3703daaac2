"""What a comparison reads of a run: its row, its samples file in storage, and its evaluation identities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from pydantic import JsonValue

from vlmhyperbench.db import artifacts, listings, measures, runs
from vlmhyperbench.db.views import RunListingView, RunView
from vlmhyperbench.errors import NotFound, NotReady
from vlmhyperbench.runtime import Runtime
from vlmhyperbench_api.presenting import json_of

SAMPLES = "samples.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFile:
    """A run with the file of its per-sample scores."""

    run: RunView
    listing: RunListingView
    path: Path
    sha256: str
    evaluations: Mapping[str, JsonValue]
    """Metric as `name@profile` → components of its evaluation identity."""


async def open_compared(runtime: Runtime, run_id: UUID, *, project_id: str) -> ComparedFile:
    """Open what a comparison reads of a run.

    Raises:
        NotFound: there is no such run, or it ended without a report.
        NotReady: it has no report yet.
        Damaged: its file is missing or was changed.
    """
    async with runtime.database.transaction() as session:
        run = await runs.get(session, run_id, project_id=project_id)
        listing = await listings.of_run(session, run_id)
        files = await artifacts.of_run(session, run_id)
        measured = await measures.of_run(session, run_id)
    if run is None or listing is None:
        raise NotFound(f"There is no run {run_id}.", cure="List the runs to see which there are.")
    file = next((file for file in files if file.name == SAMPLES), None)
    if file is None and run.state.is_terminal:
        raise NotFound(f"The run {run.name} ({run_id}) ended without scores.", cure="Look at why it ended.")
    if file is None:
        message = f"The run {run.name} ({run_id}) has no scores yet."
        raise NotReady(message, cure="Wait until it has ended.", code="no_report")
    evaluations = {
        f"{identity.get('name')}@{identity.get('profile')}": json_of(identity).get("evaluation")
        for manifest in measured
        for identity in manifest.metrics[:1]
    }
    path = await runtime.storage.open(file.storage_key, file.sha256)
    return ComparedFile(run=run, listing=listing, path=path, sha256=file.sha256, evaluations=evaluations)
