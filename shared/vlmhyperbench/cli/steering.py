"""`pause`, `resume`, `retune` and `cancel`: control an open run or experiment."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.following import find
from vlmhyperbench.cli.groups import WORKLOAD
from vlmhyperbench.cli.output import emit, say
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.client import Client
from vlmhyperbench.wire.runs import ExperimentDetail, RunDetail


def pause(subject_id: str, /, *, output: OutputFlags = TEXT) -> int:
    """Pause a run, or the open runs of an experiment. Requests in flight are finished, and answers are kept.

    Args:
        subject_id: Id of a run or an experiment, or its first digits.
        output: How the output is printed.
    """
    with Client() as client:
        changed = find(client, subject_id).pause()
    return _print(changed, "is paused", output)


def resume(subject_id: str, /, *, output: OutputFlags = TEXT) -> int:
    """Continue a paused run, or the paused runs of an experiment.

    Args:
        subject_id: Id of a run or an experiment, or its first digits.
        output: How the output is printed.
    """
    with Client() as client:
        changed = find(client, subject_id).resume()
    return _print(changed, "continues", output)


def retune(run_id: str, /, *, in_flight: Annotated[int, Parameter(group=WORKLOAD)], output: OutputFlags = TEXT) -> int:
    """Change how many requests a run keeps in flight, while it runs. Timed scenarios refuse it.

    Requests in flight are finished, and no answer is lost. The report marks the speeds as retuned, since they are of
    mixed concurrency; quality is not affected.

    Args:
        run_id: Id of the run, or its first digits.
        in_flight: Requests that each shard of the run keeps in flight from now on.
        output: How the output is printed.
    """
    with Client() as client:
        changed = client.runs.retune(run_id, in_flight=in_flight)
    return _print(changed, f"keeps {changed.in_flight} requests in flight", output)


def cancel(subject_id: str, /, *, output: OutputFlags = TEXT) -> int:
    """Cancel a run or an experiment. The answers so far are kept; `rerun` can reuse them.

    Args:
        subject_id: Id of a run or an experiment, or its first digits.
        output: How the output is printed.
    """
    with Client() as client:
        changed = find(client, subject_id).cancel()
    return _print(changed, "is being cancelled", output)


def _print(subject: RunDetail | ExperimentDetail, state: str, output: OutputFlags) -> int:
    if output.json:
        emit("experiment" if isinstance(subject, ExperimentDetail) else "run", subject)
    else:
        text = f"has already ended: {subject.state.lower()}" if subject.state.is_terminal else state
        say(f"{subject.name} ({subject.id}) {text}.")
    return exits.OK
