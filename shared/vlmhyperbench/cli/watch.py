"""`watch`: follow what was submitted before."""

from __future__ import annotations

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.following import detaching, find, follow, outcome_code
from vlmhyperbench.cli.output import emit, note, say
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.client import Client
from vlmhyperbench.wire.runs import ExperimentDetail, RunDetail


def watch(subject_id: str, /, *, shown: Shown = HUMAN) -> int:
    """Follow a run or an experiment until it ends; Ctrl-C detaches.

    Args:
        subject_id: Id of a run or an experiment.
        shown: How the answer is shown.
    """
    with Client() as client:
        subject = find(client, subject_id)
        with detaching(subject):
            ended = follow(client, subject, shown)
    if shown.json:
        emit("done", ended)
    else:
        say(ending(ended))
    return outcome_code(ended)


def ending(subject: RunDetail | ExperimentDetail) -> str:
    """Say in one line how it ended."""
    if isinstance(subject, ExperimentDetail):
        counts = ", ".join(f"{count} {state.lower()}" for state, count in subject.run_states.items())
        return f"{subject.name} ({subject.id}): {subject.state.lower()}; runs: {counts}"
    reason = f": {subject.reason}" if subject.reason else ""
    rows = f"{subject.done}/{subject.total} rows, {subject.failed} failed"
    stopped = f"; {_stopped(subject)}" if subject.stopping else ""
    return f"{subject.name} ({subject.id}): {subject.state.lower()}{reason}; {rows}{stopped}"


def _stopped(subject: RunDetail) -> str:
    told = subject.stopping or {}
    return f"{told.get('rule')} was {told.get('state')} after {told.get('samples')} of {told.get('of')} samples"


def see_through(client: Client, created: RunDetail | ExperimentDetail, *, detach: bool, shown: Shown) -> int:
    """Say what was submitted, and follow it until it ends unless `detach` is asked for; return the exit code."""
    if shown.json:
        emit("launch", created)
    else:
        note(f"{created.name}: submitted as {created.id}", shown)
    if detach:
        if not shown.json:
            say(str(created.id))
        return exits.OK
    with detaching(created):
        ended = follow(client, created, shown)
    if shown.json:
        emit("done", ended)
    else:
        say(ending(ended))
    return outcome_code(ended)
