"""`ls`: lists with keyset pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.output import emit, note, table
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.client import Client
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.wire.artifacts import Artifact
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.runs import Experiment, Run
from vlmhyperbench.wire.workers import Worker

Item = TypeVar("Item", Run, Experiment, Worker, Artifact)


def ls(
    what: Literal["runs", "experiments", "workers", "artifacts"] = "runs",
    /,
    *,
    state: str | None = None,
    of: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
    shown: Shown = HUMAN,
) -> int:
    """List runs, experiments, workers or artifacts, the newest first.

    Args:
        what: What to list.
        state: Only runs or experiments in this state.
        of: Only runs of this experiment, or artifacts of this run.
        limit: At most so many.
        cursor: Go on where an earlier page ended.
        shown: How the answer is shown.
    """
    _check_flags(what, state=state, of=of, cursor=cursor)
    with Client() as client:
        match what:
            case "runs":
                page = client.runs.list(state=state, experiment_id=of, limit=limit, cursor=cursor)
                _print(what, page, ["id", "name", "state", "done", "failed", "created"], _run, shown)
            case "experiments":
                found = client.experiments.list(state=state, limit=limit, cursor=cursor)
                _print(what, found, ["id", "name", "state", "runs", "created"], _experiment, shown)
            case "workers":
                _print(what, client.workers(), ["name", "kind", "state", "host", "slots", "seen"], _worker, shown)
            case "artifacts":
                files = client.artifacts(run_id=of, limit=limit, cursor=cursor)
                _print(what, files, ["id", "name", "kind", "bytes", "created"], _artifact, shown)
    return exits.OK


def _check_flags(what: str, **flags: str | None) -> None:
    """A flag that would be passed over is refused."""
    useful = {"runs": {"state", "of", "cursor"}, "experiments": {"state", "cursor"}, "artifacts": {"of", "cursor"}}
    for name, value in flags.items():
        if value is not None and name not in useful.get(what, set()):
            raise InvalidInput(f"--{name} means nothing for {what}.", cure="Leave it out.", code="usage")


def _print(
    kind: str, page: Page[Item], columns: Sequence[str], row: Callable[[Item], Sequence[object]], shown: Shown
) -> None:
    if shown.json:
        emit(kind, page.items, next_cursor=page.next)
        return
    table(columns, [row(item) for item in page.items])
    if page.next:
        note(f"More: --cursor {page.next}", shown)


def _run(run: Run) -> Sequence[object]:
    done = f"{run.done}/{run.total}" if run.total is not None else run.done
    return run.id, run.name, run.state.lower(), done, run.failed, f"{run.created_at:%Y-%m-%d %H:%M:%S}"


def _experiment(one: Experiment) -> Sequence[object]:
    return one.id, one.name, one.state.lower(), sum(one.run_states.values()), f"{one.created_at:%Y-%m-%d %H:%M:%S}"


def _worker(worker: Worker) -> Sequence[object]:
    state = "stale" if worker.is_stale else worker.state.lower()
    return worker.name, worker.kind, state, worker.host, worker.slots, f"{worker.last_seen_at:%H:%M:%S}"


def _artifact(file: Artifact) -> Sequence[object]:
    return file.id, file.name, file.kind, file.size_bytes, f"{file.created_at:%Y-%m-%d %H:%M:%S}"
