"""`pause`, `resume` and `cancel`: what is asked of a run or an experiment while it is open."""

from __future__ import annotations

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.following import find
from vlmhyperbench.cli.output import emit, say
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.client import Client
from vlmhyperbench.wire.runs import ExperimentDetail, RunDetail


def pause(subject_id: str, /, *, shown: Shown = HUMAN) -> int:
    """Pause a run, or the open runs of an experiment: what is running stops and keeps what it has.

    Args:
        subject_id: Id of a run or an experiment, or its first digits.
        shown: How the answer is shown.
    """
    with Client() as client:
        found = find(client, subject_id).pause()
    return _tell(found, "is paused", shown)


def resume(subject_id: str, /, *, shown: Shown = HUMAN) -> int:
    """Let a paused run, or the paused runs of an experiment, go on.

    Args:
        subject_id: Id of a run or an experiment, or its first digits.
        shown: How the answer is shown.
    """
    with Client() as client:
        found = find(client, subject_id).resume()
    return _tell(found, "goes on", shown)


def cancel(subject_id: str, /, *, shown: Shown = HUMAN) -> int:
    """Cancel a run or an experiment; the rows that it has stay.

    Args:
        subject_id: Id of a run or an experiment, or its first digits.
        shown: How the answer is shown.
    """
    with Client() as client:
        found = find(client, subject_id).cancel()
    return _tell(found, "is being cancelled", shown)


def _tell(found: RunDetail | ExperimentDetail, now: str, shown: Shown) -> int:
    if shown.json:
        emit("experiment" if isinstance(found, ExperimentDetail) else "run", found)
    else:
        state = f"has ended: {found.state.lower()}" if found.state.is_terminal else now
        say(f"{found.name} ({found.id}) {state}.")
    return exits.OK
