"""`pause` and `resume`: hold what is open, and let it go on."""

from __future__ import annotations

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.following import find
from vlmhyperbench.cli.output import emit, say
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.client import Client
from vlmhyperbench.wire.runs import ExperimentDetail


def pause(subject_id: str, /, *, shown: Shown = HUMAN) -> int:
    """Pause a run, or the open runs of an experiment: what is running stops and keeps what it has.

    Args:
        subject_id: Id of a run or an experiment, or its first digits.
        shown: How the answer is shown.
    """
    return _set_paused(subject_id, is_paused=True, shown=shown)


def resume(subject_id: str, /, *, shown: Shown = HUMAN) -> int:
    """Let a paused run, or the paused runs of an experiment, go on.

    Args:
        subject_id: Id of a run or an experiment, or its first digits.
        shown: How the answer is shown.
    """
    return _set_paused(subject_id, is_paused=False, shown=shown)


def _set_paused(subject_id: str, *, is_paused: bool, shown: Shown) -> int:
    with Client() as client:
        subject = find(client, subject_id)
        found = subject.pause() if is_paused else subject.resume()
    if shown.json:
        emit("experiment" if isinstance(found, ExperimentDetail) else "run", found)
    elif found.state.is_terminal:
        say(f"{found.name} ({found.id}) has ended: {found.state.lower()}.")
    else:
        say(f"{found.name} ({found.id}) {'is paused' if found.is_paused else 'goes on'}.")
    return exits.OK
