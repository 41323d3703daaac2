"""`watch`: follow what was submitted before."""

from __future__ import annotations

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.following import detaching, find, outcome_code
from vlmhyperbench.cli.headline import print_runs, print_scores
from vlmhyperbench.cli.output import emit, note, say
from vlmhyperbench.cli.report import locate
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.client import Client, ExperimentHandle, RunHandle
from vlmhyperbench.domain.failure_groups import FailureGroup
from vlmhyperbench.domain.short_ids import short
from vlmhyperbench.wire.runs import ExperimentDetail, RequestError, Run, RunDetail


def watch(subject_id: str, /, *, shown: Shown = HUMAN) -> int:
    """Follow a run or an experiment until it ends; Ctrl-C detaches.

    Args:
        subject_id: Id of a run or an experiment, or its first digits.
        shown: How the answer is shown.
    """
    with Client() as client:
        subject = find(client, subject_id)
        with detaching(subject):
            ended = subject.wait(progress=shown.progress)
        return conclude(client, ended, shown)


def conclude(client: Client, ended: RunDetail | ExperimentDetail, shown: Shown) -> int:
    """Say how it ended: its scores, its speeds and where its report is; return the exit code."""
    path, address = locate(client, ended)
    if shown.json:
        report = {"path": str(path) if path else None, "url": address} if address else None
        emit("done", {**ended.model_dump(mode="json"), "report": report})
    else:
        say(ending(ended))
        if isinstance(ended, ExperimentDetail):
            print_runs(ended.runs)
        else:
            print_scores(ended)
        if address:
            say(f"report: {path or f'vlmhyperbench report {short(ended.id)}'}")
    return outcome_code(ended)


def ending(subject: RunDetail | ExperimentDetail) -> str:
    """Say in one line how it stands, or how it ended."""
    if isinstance(subject, ExperimentDetail):
        counts = ", ".join(f"{count} {state.lower()}" for state, count in subject.run_states.items())
        return f"{subject.name} ({subject.id}): {subject.state.lower()}; runs: {counts}"
    reason = f": {subject.reason}" if subject.reason else ""
    total = "?" if subject.total is None else subject.total
    rows = f"{subject.done}/{total} rows, {subject.failed} failed"
    stopped = f"; {_stopped(subject)}" if subject.stopping else ""
    waits = f"; waiting: {subject.waits_for.message}" if subject.waits_for else ""
    error = f"\nmost frequent error: {say_failure(subject.errors[0])}" if subject.errors and not subject.reason else ""
    return f"{subject.name} ({subject.id}): {state_of(subject)}{reason}; {rows}{stopped}{waits}{error}"


def state_of(run: Run) -> str:
    """Write the state of a run; that it is paused or being cancelled says more than where it stands."""
    if run.state.is_terminal:
        return run.state.lower()
    return "cancelling" if run.is_cancelling else "paused" if run.is_paused else run.state.lower()


def say_failure(error: RequestError) -> str:
    """Say what requests failed with, how often, and whether that counts."""
    return FailureGroup(**error.model_dump()).in_words


def _stopped(subject: RunDetail) -> str:
    rule, state, samples, total = ((subject.stopping or {}).get(name) for name in ("rule", "state", "samples", "of"))
    return f"{rule} was {state} after {samples} of {total} samples"


def see_through(client: Client, created: RunHandle | ExperimentHandle, *, detach: bool, shown: Shown) -> int:
    """Say what was submitted, and follow it until it ends unless `detach` is asked for; return the exit code."""
    for warning in created.warnings:
        note(f"warning: {warning}", shown)
    if shown.json:
        emit("launch", created, warnings=created.warnings)
    else:
        note(f"{created.name}: submitted as {created.id}", shown)
    if detach:
        if not shown.json:
            say(str(created.id))
        return exits.OK
    with detaching(created):
        ended = created.wait(progress=shown.progress)
    return conclude(client, ended, shown)
