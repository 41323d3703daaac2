"""Delete runs that are older than the policy keeps, and files that no row refers to; never what a kept run needs."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from vlmhyperbench.db import retention, tiers
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.tiers import StoredRunView
from vlmhyperbench.domain.tiers import TierPolicy, why_kept
from vlmhyperbench.logs import get_logger
from vlmhyperbench.storage import Storage
from vlmhyperbench.tiers.moving import lock_run

_LOG = get_logger(__name__)
PREFIXES: Final = ("runs/", "archives/", "exports/")
"""Where files of runs and exports are. Images and sample manifests, shared by their content, are never deleted."""
_MAX_RUNS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A file of runs that no row refers to."""

    key: str
    size_bytes: int


async def delete_due(database: Database, storage: Storage, policy: TierPolicy) -> list[StoredRunView]:
    """Delete the runs that the policy does not keep, oldest first, and return them."""
    if policy.delete_after_days is None:
        return []
    async with database.snapshot() as session:
        runs = await tiers.listed(session, limit=_MAX_RUNS)
    return [run for run in runs if await _delete(database, storage, run, policy)]


async def orphans(database: Database, storage: Storage, policy: TierPolicy) -> list[Orphan]:
    """List the files of runs that no row refers to and that are older than the policy's grace.

    A file is stored before its row, so the rows are read after the files: one that is new has its row by then, or is
    too young.
    """
    oldest_s = time.time() - policy.grace_s
    listed = await asyncio.to_thread(lambda: [file for prefix in PREFIXES for file in storage.listed(prefix)])
    async with database.snapshot() as session:
        known = await retention.referenced(session)
    return [
        Orphan(key=file.key, size_bytes=file.size_bytes)
        for file in listed
        if file.key not in known and file.modified_s < oldest_s
    ]


async def delete_orphans(database: Database, storage: Storage, policy: TierPolicy) -> list[Orphan]:
    """Delete the files that `orphans` lists, and return them."""
    found = await orphans(database, storage, policy)
    for orphan in found:
        await asyncio.to_thread(storage.delete, orphan.key)
    if found:
        _LOG.info("storage.swept", files=len(found), bytes=sum(orphan.size_bytes for orphan in found))
    return found


async def _delete(database: Database, storage: Storage, run: StoredRunView, policy: TierPolicy) -> bool:
    """Delete a run if nothing keeps it, which is looked at again under the lock of the run."""
    if why_kept(run.for_rules, policy, datetime.now(UTC)) is not None:
        return False
    async with database.transaction() as session:
        await lock_run(session, run.id)
        [locked] = await tiers.listed(session, run_ids=[run.id])
        if why_kept(locked.for_rules, policy, datetime.now(UTC)) is not None:
            return False
        keys = await retention.files_of(session, run.id)
        await retention.delete_run(session, run.id)
    for key in keys:  # killed here, the rest are files without an owner
        await asyncio.to_thread(storage.delete, key)
    _LOG.info("run.deleted", run_id=str(run.id), files=len(keys))
    return True
