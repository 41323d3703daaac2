"""`show`: one run or experiment."""

from __future__ import annotations

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.following import find
from vlmhyperbench.cli.headline import print_scores
from vlmhyperbench.cli.ls import run_table
from vlmhyperbench.cli.output import emit, say, table
from vlmhyperbench.cli.report import locate
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.cli.watch import ending
from vlmhyperbench.client import Client
from vlmhyperbench.domain.short_ids import short
from vlmhyperbench.wire.runs import ExperimentDetail, RunDetail

MAX_ERRORS = 10
"""Maximum number of kinds of errors that are shown; `--json` has all of them."""


def show(subject_id: str, /, *, shown: Shown = HUMAN) -> int:
    """Show a run or an experiment.

    Args:
        subject_id: Id of a run or an experiment, or its first digits.
        shown: How the answer is shown.
    """
    with Client() as client:
        subject = find(client, subject_id)
        path, address = locate(client, subject) if subject.state.is_terminal else (None, None)
    if shown.json:
        emit("experiment" if isinstance(subject, ExperimentDetail) else "run", subject)
    elif isinstance(subject, ExperimentDetail):
        _show_experiment(subject)
    else:
        _show_run(subject)
    if address and not shown.json:
        say(f"report: {path or f'vlmhyperbench report {short(subject.id)}'}")
    return exits.OK


def _show_experiment(subject: ExperimentDetail) -> None:
    say(ending(subject))
    table(*run_table(subject.runs))


def _show_run(subject: RunDetail) -> None:
    say(ending(subject))
    say(f"target {subject.target}, task {subject.task}, scenario {subject.scenario}, spec {subject.spec_digest[:12]}")
    print_scores(subject)
    rows = [
        (job.kind, job.state.lower(), job.done, job.failed, job.attempts, _why(job.outcome)) for job in subject.jobs
    ]
    table(["job", "state", "done", "failed", "attempts", "outcome"], rows)
    if subject.errors:
        errors = [
            (error.count, error.http_status, error.code, error.rule, error.cause, error.message)
            for error in subject.errors[:MAX_ERRORS]
        ]
        table(["requests", "HTTP", "code", "rule", "cause", "what the server said"], errors)


def _why(outcome: object) -> str | None:
    if not isinstance(outcome, dict):
        return None
    return ": ".join(str(outcome[name]) for name in ("kind", "reason") if outcome.get(name))
