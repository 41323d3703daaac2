"""`ls`: list runs, experiments, sessions or artifacts, page by page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal, TypeVar

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.groups import SELECTION
from vlmhyperbench.cli.headline import score_of
from vlmhyperbench.cli.output import emit, note, table
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.watch import state_of
from vlmhyperbench.client import Client
from vlmhyperbench.domain.short_ids import short
from vlmhyperbench.domain.states import ExperimentState, RunState
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.wire.artifacts import Artifact
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.runs import Experiment, Run
from vlmhyperbench.wire.sessions import Session

Item = TypeVar("Item", Run, Experiment, Session, Artifact)
Table = tuple[Sequence[str], Sequence[Sequence[object]]]
"""Columns and rows."""


def ls(
    what: Literal["runs", "experiments", "sessions", "artifacts"] = "runs",
    /,
    *,
    state: Annotated[str | None, Parameter(group=SELECTION)] = None,
    of: Annotated[str | None, Parameter(group=SELECTION)] = None,
    limit: Annotated[int, Parameter(group=SELECTION)] = 50,
    cursor: Annotated[str | None, Parameter(group=SELECTION)] = None,
    output: OutputFlags = TEXT,
) -> int:
    """List runs, experiments, sessions or artifacts, newest first.

    A session is a question to a pipeline (`vlmhyperbench pipeline ask`); the list of runs has none.

    Args:
        what: What to list.
        state: Only runs, sessions or experiments in this state, for example running or failed.
        of: Only the runs of the experiment or the artifacts of the run with this id, or the sessions of this pipeline.
        limit: Maximum number of rows.
        cursor: Continue an earlier list after its last row; the earlier list prints the value.
        output: How the output is printed.
    """
    _check_flags(what, state=state, of=of, cursor=cursor)
    with Client() as client:
        match what:
            case "runs":
                page = client.runs.list(state=state, experiment_id=of, kind="run", limit=limit, cursor=cursor)
                _print(what, page, run_table, output)
            case "experiments":
                experiments = client.experiments.list(state=state, limit=limit, cursor=cursor)
                _print(what, experiments, _rows(["id", "name", "state", "runs", "created"], _experiment), output)
            case "sessions":
                sessions = client.sessions.list(pipeline=of, state=state, limit=limit, cursor=cursor)
                _print(what, sessions, session_table, output)
            case "artifacts":
                files = client.artifacts(run_id=of, limit=limit, cursor=cursor)
                _print(what, files, _rows(["id", "name", "kind", "bytes", "created"], _artifact), output)
    return exits.OK


def _check_flags(what: str, **flags: str | None) -> None:
    """Refuse flags that have no effect on this list, and unknown states.

    Raises:
        InvalidInput: there is one.
    """
    useful = {
        "runs": {"state", "of", "cursor"},
        "experiments": {"state", "cursor"},
        "sessions": {"state", "of", "cursor"},
        "artifacts": {"of", "cursor"},
    }
    for name, value in flags.items():
        if value is not None and name not in useful.get(what, set()):
            raise InvalidInput(
                f"--{name} has no effect on a list of {what}.", cure=f"Leave out --{name}.", code="usage"
            )
    states = {"runs": RunState, "sessions": RunState, "experiments": ExperimentState}.get(what)
    if states is not None and (state := flags["state"]) is not None and state.upper() not in states.__members__:
        cure = f"Give one of {', '.join(name.lower() for name in states.__members__)}."
        raise InvalidInput(f"--state {state!r} is not a state of {what}.", cure=cure, code="usage")


def run_table(runs: Sequence[Run]) -> Table:
    """Return the columns and rows of runs: target and task, state and progress, score, and what they wait for."""
    columns = ["id", "name", "target", "task", "state", "done", "failed", "score", "created"]
    waits = any(run.waits_for for run in runs)
    rows = [(*_run(run), *([run.waits_for.message if run.waits_for else None] if waits else [])) for run in runs]
    return [*columns, *(["waiting"] if waits else [])], rows


def session_table(sessions: Sequence[Session]) -> Table:
    """Return the columns and rows of sessions."""
    rows = [
        (short(session.id), session.pipeline, session.state.lower(), session.name, f"{session.created_at:%F %T}")
        for session in sessions
    ]
    return ["id", "pipeline", "state", "name", "asked"], rows


def _rows(columns: Sequence[str], row: Callable[[Item], Sequence[object]]) -> Callable[[Sequence[Item]], Table]:
    return lambda items: (columns, [row(item) for item in items])


def _print(kind: str, page: Page[Item], rows: Callable[[Sequence[Item]], Table], output: OutputFlags) -> None:
    if output.json:
        emit(kind, page.items, next_cursor=page.next)
        return
    table(*rows(page.items))
    if page.next:
        note(f"There are more rows: --cursor {page.next}", output)


def _run(run: Run) -> Sequence[object]:
    done = f"{run.done}/{run.total}" if run.total is not None else run.done
    created = f"{run.created_at:%Y-%m-%d %H:%M:%S}"
    return short(run.id), run.name, run.target, run.task, state_of(run), done, run.failed, score_of(run), created


def _experiment(experiment: Experiment) -> Sequence[object]:
    state = "paused" if experiment.is_paused else experiment.state.lower()
    created = f"{experiment.created_at:%Y-%m-%d %H:%M:%S}"
    return short(experiment.id), experiment.name, state, sum(experiment.run_states.values()), created


def _artifact(file: Artifact) -> Sequence[object]:
    return short(file.id), file.name, file.kind, file.size_bytes, f"{file.created_at:%Y-%m-%d %H:%M:%S}"
