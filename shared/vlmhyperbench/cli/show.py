"""`show`: print the state, scores and errors of a run or an experiment."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.following import find
from vlmhyperbench.cli.groups import SELECTION
from vlmhyperbench.cli.headline import print_scores
from vlmhyperbench.cli.ls import run_table
from vlmhyperbench.cli.manifests import show_manifest
from vlmhyperbench.cli.output import emit, say, table
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.report import locate_report
from vlmhyperbench.cli.shortages import show_shortage
from vlmhyperbench.cli.watch import describe
from vlmhyperbench.client import Client
from vlmhyperbench.client.progress import describe as progress_line
from vlmhyperbench.domain.short_ids import short
from vlmhyperbench.wire.runs import ExperimentDetail, RunDetail

MAX_ERRORS = 10
"""Maximum number of kinds of errors that are printed; `--json` prints all."""


def show(
    subject_id: str, /, *, manifest: Annotated[bool, Parameter(group=SELECTION)] = False, output: OutputFlags = TEXT
) -> int:
    """Show the state, scores, jobs and errors of a run, or the runs of an experiment.

    Args:
        subject_id: Id of a run or an experiment, or its first digits.
        manifest: Show what the run really used instead: weights, engines, environments, machines, and every value of
            its configuration with the file, flag or default that set it.
        output: How the output is printed.
    """
    with Client() as client:
        if manifest:
            return show_manifest(client.runs.manifest(subject_id), output)
        subject = find(client, subject_id)
        path, address = locate_report(client, subject) if subject.state.is_terminal else (None, None)
    if output.json:
        emit("experiment" if isinstance(subject, ExperimentDetail) else "run", subject)
    elif isinstance(subject, ExperimentDetail):
        _show_experiment(subject)
    else:
        _show_run(subject)
    if address and not output.json:
        say(f"report: {path or f'vlmhyperbench report {short(subject.id)}'}")
    return exits.OK


def _show_experiment(subject: ExperimentDetail) -> None:
    say(describe(subject))
    table(*run_table(subject.runs))


def _show_run(subject: RunDetail) -> None:
    say(describe(subject))
    if subject.progress is not None and not subject.state.is_terminal:
        say(progress_line(subject.progress))
    say(f"target {subject.target}, task {subject.task}, scenario {subject.scenario}, spec {subject.spec_digest[:12]}")
    if subject.is_degraded:
        say("degraded: a model gave up quality so that it fits; do not rank this run (`show --manifest` has the steps)")
    print_scores(subject)
    rows = [
        (job.kind, job.state.lower(), job.done, job.failed, job.attempts, _outcome(job.outcome)) for job in subject.jobs
    ]
    table(["job", "state", "done", "failed", "attempts", "outcome"], rows)
    if subject.errors:
        errors = [
            (error.count, error.http_status, error.code, error.rule, error.cause, error.message)
            for error in subject.errors[:MAX_ERRORS]
        ]
        table(["requests", "HTTP", "code", "rule", "cause", "message of the server"], errors)
    for shortage in subject.shortages:
        show_shortage(shortage)


def _outcome(outcome: object) -> str | None:
    if not isinstance(outcome, dict):
        return None
    return ": ".join(str(outcome[name]) for name in ("kind", "reason") if outcome.get(name))
