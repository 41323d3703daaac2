"""What `doctor` and the API check of a platform: its parts, clock, accounts, scheduler and workers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Coroutine, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import get_args
from urllib.parse import urlsplit

from vlmhyperbench.accounts.keeping import check_may_make
from vlmhyperbench.db import leadership, workers
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.replica import check_replica
from vlmhyperbench.db.views import DeviceView, WorkerView
from vlmhyperbench.domain.steps import WorkerKind
from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.checks import Check
from vlmhyperbench.worker.reachability import PARTS, check_clock


async def part_checks(settings: Settings) -> list[Check]:
    """Ask each part of the stack; of a database that does not answer nothing more is asked."""
    checks = [await _asked(name, check(settings), "answers") for name, check in PARTS.items()]
    if all(check.is_ok for check in checks if check.name == "database"):
        checks.append(await _asked("clock", check_clock(settings), "that of the database"))
        checks.append(await _accounts(settings))
        replica_url = settings.database_replica_url.get_secret_value()
        if replica_url:
            asking = check_replica(
                settings.database_url.get_secret_value(), replica_url, wait_s=settings.database_replica_wait_s
            )
            checks.append(await _asked("replica", asking, "lists are read from it"))
    return checks


async def storage_check(settings: Settings) -> Check:
    """Check the storage alone."""
    return await _asked("storage", PARTS["storage"](settings), "answers")


async def fleet_checks(database: Database, settings: Settings, *, version: str) -> list[Check]:
    """Check that one scheduler leads, and that all kinds of workers are present, alive and of one version.

    Raises:
        Unavailable: the database does not answer.
    """
    async with database.transaction() as session:
        is_led = await leadership.is_led(session)
        present = await workers.page(session, is_present=True)
        devices = await workers.devices_of(session, [worker.id for worker in present])
    stale_before = datetime.now(UTC) - timedelta(seconds=settings.timers.stale_worker_s)
    return [
        Check(
            name="scheduler",
            is_ok=is_led,
            detail="one leads" if is_led else "none leads, so that no job is assigned",
            cure="Start it; `vlmhyperbench status` shows the processes of an embedded stack.",
        ),
        *_of_workers(present, devices, stale_before=stale_before, version=version),
    ]


def _of_workers(
    present: Sequence[WorkerView], devices: Sequence[DeviceView], *, stale_before: datetime, version: str
) -> Iterator[Check]:
    kinds = Counter(worker.kind for worker in present)
    versions: dict[str, list[str]] = defaultdict(list)
    for worker in present:
        versions[worker.version].append(worker.name)
    absent = [kind for kind in get_args(WorkerKind) if kind not in kinds]
    yield Check(
        name="workers",
        is_ok=not absent,
        detail="; ".join(
            [*(f"{count} {kind}" for kind, count in sorted(kinds.items())), *(f"no {kind}" for kind in absent)]
        ),
        cure=f"Start one: vlmhyperbench worker {absent[0]}. Jobs of its kind wait until then." if absent else "",
    )
    others = {other: names for other, names in versions.items() if other != version}
    yield Check(
        name="versions",
        is_ok=not others,
        detail=f"all have {version}"
        if not others
        else "; ".join(f"{', '.join(names)}: {other}" for other, names in sorted(others.items())),
        cure=f"Install vlmhyperbench=={version} on their machines, and start them again.",
    )
    stale = [worker.name for worker in present if worker.last_seen_at < stale_before]
    yield Check(
        name="heartbeats",
        is_ok=not stale,
        detail=f"overdue: {', '.join(stale)}" if stale else "all in time",
        cure="Look at their logs, and at the network between the machines; their jobs go to others.",
    )
    broken = [f"{device.name}: {device.state_reason}" for device in devices if device.state == "BROKEN"]
    yield Check(
        name="quarantine",
        is_ok=not broken,
        detail="; ".join(broken) or "no device is in quarantine",
        cure="Release a device when its fault is mended: vlmhyperbench workers release-device UUID.",
    )


async def _accounts(settings: Settings) -> Check:
    if settings.server_url:
        name = urlsplit(settings.database_url.get_secret_value()).username
        return Check(name="accounts", is_ok=True, detail=f"{settings.server_url} accepts {name}")
    if settings.worker_accounts == "shared":
        return Check(name="accounts", is_ok=True, detail="joined workers share one (VLMHB_WORKER_ACCOUNTS=shared)")
    asking = check_may_make(settings.database_url.get_secret_value(), redis_url=settings.redis_url.get_secret_value())
    return await _asked("accounts", asking, "each join token gets one of its own in Postgres and Redis")


async def _asked(name: str, asking: Coroutine[None, None, None], good: str) -> Check:
    try:
        await asking
    except VlmHyperBenchError as error:
        return Check(name=name, is_ok=False, detail=error.message, cure=error.cure)
    return Check(name=name, is_ok=True, detail=good)
