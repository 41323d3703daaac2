"""`storage`: where the data of runs is; move, restore and pin runs; what the policy would do next."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final
from uuid import UUID

from cyclopts import App, Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.groups import SELECTION, STACK
from vlmhyperbench.cli.output import emit, note, say, table
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.errors import Conflict, InvalidInput, Unavailable
from vlmhyperbench.wire.storage import StorageStatus, StoredRun, TierName

if TYPE_CHECKING:
    from vlmhyperbench.client import Client

app = App(name="storage", help="Say where the data of runs is; move, restore and pin runs.")

_LOOK_S: Final = 1.0
_MIB: Final = 1024**2


@app.command
def status(*run: str, output: OutputFlags = TEXT) -> int:
    """Count the runs of each tier, or say where RUNs are, what moves next, and why a run is not deleted.

    Args:
        run: Ids of runs; without any, the tiers and the runs that move next or would be deleted.
        output: How the output is printed.
    """
    from vlmhyperbench.client import Client

    with Client() as client:
        totals, runs = client.storage(), client.stored_runs(_full(client, run) or None).items
    chosen = runs if run else [item for item in runs if item.next or item.wanted or item.error or not item.kept_because]
    if output.json:
        emit("storage", {**totals.model_dump(mode="json"), "runs": [item.model_dump(mode="json") for item in chosen]})
        return exits.OK
    if not run:
        _print_totals(totals)
    if chosen:
        _print_runs(chosen)
    return exits.OK


@app.command
def move(
    *run: str,
    tier: Annotated[TierName, Parameter(group=STACK)],
    dry_run: Annotated[bool, Parameter(group=SELECTION, negative=())] = False,
    wait: Annotated[bool, Parameter(group=STACK, negative=())] = False,
    output: OutputFlags = TEXT,
) -> int:
    """Move finished RUNs to a tier: `hot` (Postgres), `warm` (Parquet) or `cold` (a compressed archive).

    A reporting worker moves them, and compares every row and file before it deletes anything.

    Args:
        run: Ids of finished runs.
        tier: Where they shall be.
        dry_run: Only say what would be moved.
        wait: Wait until they are there.
        output: How the output is printed.
    """
    from vlmhyperbench.client import Client

    if not run:
        raise InvalidInput(
            "No run is given.", cure="Give the ids of runs; `vlmhyperbench ls` lists them.", code="usage"
        )
    with Client() as client:
        runs = _full(client, run)
        asked = client.move_runs(runs, tier=tier, dry_run=dry_run).items
        if wait and not dry_run:
            asked = _wait(client, runs, tier, output)
    if output.json:
        emit("storage_moves", [item.model_dump(mode="json") for item in asked])
    else:
        _print_runs(asked)
    return exits.OK


@app.command
def restore(
    *run: str,
    tier: Annotated[TierName, Parameter(group=STACK)] = "warm",
    all_: Annotated[bool, Parameter(name="--all", group=SELECTION, negative=())] = False,
    wait: Annotated[bool, Parameter(group=STACK, negative=())] = False,
    output: OutputFlags = TEXT,
) -> int:
    """Restore archived RUNs, and the runs whose answers they reuse, so that they can be read.

    Args:
        run: Ids of runs.
        tier: `warm` suffices for every reader; `hot` brings the rows back into Postgres.
        all_: Restore every run that is colder than the tier.
        wait: Wait until they are there.
        output: How the output is printed.
    """
    from vlmhyperbench.client import Client

    if tier == "cold":
        raise InvalidInput("Nothing is restored to `cold`.", cure="Use `storage move --tier cold`.", code="usage")
    with Client() as client:
        colder = {"hot": ("warm", "cold"), "warm": ("cold",)}[tier]
        known = client.stored_runs().items if all_ else []
        runs = [*run, *(str(item.run_id) for item in known if item.tier in colder)]
        if not runs and all_:
            say("No run is archived.") if not output.json else emit("storage_moves", [])
            return exits.OK
    return move(*runs, tier=tier, wait=wait, output=output)


@app.command
def pin(
    *run: str, undo: Annotated[bool, Parameter(group=STACK, negative=())] = False, output: OutputFlags = TEXT
) -> int:
    """Pin RUNs, so that no policy deletes them.

    Args:
        run: Ids of runs.
        undo: Unpin them.
        output: How the output is printed.
    """
    from vlmhyperbench.client import Client

    with Client() as client:
        pinned = client.pin_runs(_full(client, run), is_pinned=not undo).items
    if output.json:
        emit("storage_pins", [item.model_dump(mode="json") for item in pinned])
    else:
        _print_runs(pinned)
    return exits.OK


def _full(client: Client, runs: Sequence[str]) -> list[UUID]:
    """Return the full ids of runs that are given by the first digits of theirs."""
    return [client.identify(run).id for run in runs]


def _wait(client: Client, runs: Sequence[UUID], tier: TierName, output: OutputFlags) -> list[StoredRun]:
    """Wait until runs are in a tier.

    Raises:
        Unavailable: a move failed.
        Conflict: a run stays, because another one reads it.
    """
    while True:
        items = client.stored_runs(list(runs)).items
        failed = next((item for item in items if item.error), None)
        if failed is not None:
            raise Unavailable(f"The run {failed.run_id} was not moved. {failed.error}", code="not_moved")
        if all(item.tier == tier for item in items):
            return items
        stuck = next((item for item in items if item.tier != tier and item.next is None), None)
        if stuck is not None:
            message = f"The run {stuck.run_id} stays {stuck.tier}: a run that is not archived reads its answers."
            raise Conflict(message, cure="Archive those runs first.", code="run_referenced")
        note(f"  {sum(item.tier == tier for item in items)} of {len(items)} are {tier} …", output)
        time.sleep(_LOOK_S)


def _print_totals(totals: StorageStatus) -> None:
    rows = [(total.tier, total.runs, total.rows, f"{total.size_bytes / _MIB:.1f}") for total in totals.tiers]
    table(["tier", "runs", "rows outside Postgres", "MiB"], rows, right=["runs", "rows outside Postgres", "MiB"])
    deleted = "never" if totals.delete_after_days is None else f"after {totals.delete_after_days:g} days"
    say(
        f"Finished runs become warm after {totals.warm_after_days:g} days and cold after {totals.cold_after_days:g}; "
        f"they are deleted {deleted}."
    )


def _print_runs(runs: Sequence[StoredRun]) -> None:
    rows = [
        (
            item.run_id,
            item.name,
            item.tier,
            item.wanted or item.next or "",
            f"{item.size_bytes / _MIB:.1f}",
            item.error or (f"kept: {item.kept_because}" if item.kept_because else "will be deleted"),
        )
        for item in runs
    ]
    table(["run", "name", "tier", "moves to", "MiB", "note"], rows, right=["MiB"])
