"""`cancel`: ask a run or an experiment to end; what was measured stays."""

from __future__ import annotations

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.following import find
from vlmhyperbench.cli.output import emit, say
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.client import Client
from vlmhyperbench.wire.runs import ExperimentDetail


def cancel(subject_id: str, /, *, shown: Shown = HUMAN) -> int:
    """Cancel a run or an experiment; the rows that it has stay.

    Args:
        subject_id: Id of a run or an experiment, or its first digits.
        shown: How the answer is shown.
    """
    with Client() as client:
        cancelled = find(client, subject_id).cancel()
    if shown.json:
        emit("experiment" if isinstance(cancelled, ExperimentDetail) else "run", cancelled)
    elif cancelled.state.is_terminal:
        say(f"{cancelled.name} ({cancelled.id}) has ended: {cancelled.state.lower()}.")
    else:
        say(f"{cancelled.name} ({cancelled.id}) is being cancelled.")
    return exits.OK
