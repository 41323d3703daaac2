"""`rerun`: run again, and keep what has not changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from vlmhyperbench.cli.groups import REUSE, SUBMISSION, TASK
from vlmhyperbench.cli.run import read_entry
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.cli.watch import see_through
from vlmhyperbench.client import Client
from vlmhyperbench.client.refusals import checked
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench.wire.runs import RunRerun, RunRescore


def rerun(
    run_id: str,
    /,
    *,
    run: Annotated[str | None, Parameter(group=TASK)] = None,
    force: Annotated[Literal["index", "inference", "evaluation", "report"] | None, Parameter(group=REUSE)] = None,
    retry_failed: Annotated[bool, Parameter(group=REUSE)] = False,
    only_evaluate: Annotated[bool, Parameter(group=REUSE)] = False,
    name: Annotated[str | None, Parameter(group=SUBMISSION)] = None,
    detach: Annotated[bool, Parameter(group=SUBMISSION)] = False,
    shown: Shown = HUMAN,
) -> int:
    """Run again: a new run that reuses successful answers to the same requests by the same engine.

    Its file reuse-….jsonl gives the reason for each sample that was reused or asked again.

    Args:
        run_id: Id of a run that has ended.
        run: Registered run, or a YAML file, with the new definition; by default that of the old run.
        force: Reuse nothing from this stage on.
        retry_failed: Refuse to run again if no request failed.
        only_evaluate: Ask no model; score the existing answers again, as `rescore` does.
        name: Name of the new run.
        detach: Submit, print the id and return.
        shown: How the answer is shown.
    """
    if only_evaluate and (run is not None or force is not None or retry_failed):
        raise InvalidInput("--only-evaluate asks no model.", cure="Leave out the other flags.", code="usage")
    with Client() as client:
        if only_evaluate:
            created = client.runs.rescore(run_id, checked(RunRescore, {"name": name} if name is not None else {}))
        else:
            given = {"run": _entry(run), "force": force, "retry_failed": retry_failed, "name": name}
            choices = checked(RunRerun, given)
            created = client.runs.rerun(run_id, choices)
        return see_through(client, created, detach=detach, shown=shown)


def _entry(run: str | None) -> str | RunEntry | None:
    if run is None or not run.endswith((".yaml", ".yml")):
        return run
    entry = read_entry(Path(run))
    if not isinstance(entry, RunEntry):
        raise InvalidInput(f"{run} is an experiment.", cure="Name a run.", code="usage")
    return entry
