"""`rerun`: repeat a run, and reuse the answers to unchanged requests."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from vlmhyperbench.cli.groups import REUSE, SUBMISSION, TASK
from vlmhyperbench.cli.origins import origins_of_file
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.run import read_entry
from vlmhyperbench.cli.watch import follow_submitted
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
    output: OutputFlags = TEXT,
) -> int:
    """Repeat a run in a new run, which reuses successful answers to the same requests by the same engine.

    The file reuse-….jsonl of the new run lists for each sample whether its answer was reused, and why.

    Args:
        run_id: Id of a finished run, or its first digits.
        run: Registered run, or a YAML file, with a changed definition; by default the definition of the old run.
        force: Reuse nothing from this stage and the later ones.
        retry_failed: Refuse to start if no request of the old run failed.
        only_evaluate: Do not ask the model; only score the stored answers again, as `rescore` does.
        name: Name of the new run; by default made from the name of the old run.
        detach: Print the id and return at once, without waiting for the end.
        output: How the output is printed.
    """
    if only_evaluate and (run is not None or force is not None or retry_failed):
        raise InvalidInput(
            "--only-evaluate excludes --run, --force and --retry-failed.", cure="Leave them out.", code="usage"
        )
    with Client() as client:
        if only_evaluate:
            created = client.runs.rescore(run_id, checked(RunRescore, {"name": name} if name is not None else {}))
        else:
            entry = _entry(run)
            origins = origins_of_file(Path(run)) if run is not None and isinstance(entry, RunEntry) else {}
            given = {"run": entry, "force": force, "retry_failed": retry_failed, "name": name, "origins": origins}
            choices = checked(RunRerun, given)
            created = client.runs.rerun(run_id, choices)
        return follow_submitted(client, created, detach=detach, output=output)


def _entry(run: str | None) -> str | RunEntry | None:
    if run is None or not run.endswith((".yaml", ".yml")):
        return run
    entry = read_entry(Path(run))
    if not isinstance(entry, RunEntry):
        raise InvalidInput(f"{run} contains an experiment.", cure="Name a file with a run.", code="usage")
    return entry
