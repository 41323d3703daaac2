"""`watch`: follow a submitted run or experiment until it ends."""

from __future__ import annotations

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.following import detaching, find, outcome_code
from vlmhyperbench.cli.headline import print_runs, print_scores
from vlmhyperbench.cli.output import emit, note, say
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.report import locate_report
from vlmhyperbench.client import Client, ExperimentHandle, RunHandle
from vlmhyperbench.domain.failure_groups import FailureGroup
from vlmhyperbench.domain.short_ids import short
from vlmhyperbench.wire.runs import ExperimentDetail, RequestError, Run, RunDetail


def watch(subject_id: str, /, *, output: OutputFlags = TEXT) -> int:
    """Follow a run or an experiment until it ends. On Ctrl-C, only this command ends; the run continues.

    Args:
        subject_id: Id of a run or an experiment, or its first digits.
        output: How the output is printed.
    """
    with Client() as client:
        subject = find(client, subject_id)
        with detaching(subject):
            ended = subject.wait(progress=output.progress)
        return print_outcome(client, ended, output)


def print_outcome(client: Client, ended: RunDetail | ExperimentDetail, output: OutputFlags) -> int:
    """Print the end state, scores, speeds and the location of the report; return the exit code."""
    path, address = locate_report(client, ended)
    if output.json:
        report = {"path": str(path) if path else None, "url": address} if address else None
        emit("done", {**ended.model_dump(mode="json"), "report": report})
    else:
        say(describe(ended))
        if isinstance(ended, ExperimentDetail):
            print_runs(ended.runs)
        else:
            print_scores(ended)
        if address:
            say(f"report: {path or f'vlmhyperbench report {short(ended.id)}'}")
    return outcome_code(ended)


def describe(subject: RunDetail | ExperimentDetail) -> str:
    """Return a line with the state of a run or experiment and its counts; a frequent error is on a second line."""
    if isinstance(subject, ExperimentDetail):
        counts = ", ".join(f"{count} {state.lower()}" for state, count in subject.run_states.items())
        return f"{subject.name} ({subject.id}): {subject.state.lower()}; runs: {counts}"
    reason = f": {subject.reason}" if subject.reason else ""
    total = "?" if subject.total is None else subject.total
    requests = f"{subject.done}/{total} requests, {subject.failed} failed"
    stopped = f"; {_stopped(subject)}" if subject.stopping else ""
    waits = f"; waiting: {subject.waits_for.message}" if subject.waits_for else ""
    error = f"\nmost frequent error: {say_failure(subject.errors[0])}" if subject.errors and not subject.reason else ""
    return f"{subject.name} ({subject.id}): {state_of(subject)}{reason}; {requests}{stopped}{waits}{error}"


def state_of(run: Run) -> str:
    """Return the state of a run as text: paused or cancelling while it is open and so, otherwise its stored state."""
    if run.state.is_terminal:
        return run.state.lower()
    return "cancelling" if run.is_cancelling else "paused" if run.is_paused else run.state.lower()


def say_failure(error: RequestError) -> str:
    """Return a line about a kind of error: its count, its message, and whether it counts against the model."""
    return FailureGroup(**error.model_dump()).in_words


def _stopped(subject: RunDetail) -> str:
    rule, state, samples, total = ((subject.stopping or {}).get(name) for name in ("rule", "state", "samples", "of"))
    return f"{rule} was {state} after {samples} of {total} samples"


def follow_submitted(
    client: Client, created: RunHandle | ExperimentHandle, *, detach: bool, output: OutputFlags
) -> int:
    """Print what was submitted, and follow it until it ends unless `detach` is set; return the exit code."""
    for warning in created.warnings:
        note(f"warning: {warning}", output)
    if output.json:
        emit("launch", created, warnings=created.warnings)
    else:
        note(f"{created.name}: submitted as {created.id}", output)
    if detach:
        if not output.json:
            say(str(created.id))
        return exits.OK
    with detaching(created):
        ended = created.wait(progress=output.progress)
    return print_outcome(client, ended, output)
