"""Find a run or an experiment by its id, and determine the exit code of its end; shared by several commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.output import note
from vlmhyperbench.client import Client, ExperimentHandle, RunHandle
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.wire.runs import ExperimentDetail, RunDetail

ERROR_RATE_LIMIT = 0.05
"""Share of failed requests above which the exit code of a finished run is 4."""


def find(client: Client, wanted: str) -> RunHandle | ExperimentHandle:
    """Return the run or experiment with an id, which may be abbreviated to its first digits.

    Raises:
        NotFound: there is none.
        InvalidInput: the text is not an id, or several ids begin with it.
    """
    identified = client.identify(wanted)
    match identified.kind:
        case "run":
            return client.runs.get(identified.id)
        case "experiment":
            return client.experiments.get(identified.id)
    raise InvalidInput(
        f"{wanted} is the id of a file, {identified.name}.",
        cure="Give the id of a run or an experiment; `vlmhyperbench ls` lists them.",
    )


def outcome_code(subject: RunDetail | ExperimentDetail) -> int:
    """Return the exit code for an end: 4 if a run failed, was cancelled or had too many errors, otherwise 0."""
    runs = subject.runs if isinstance(subject, ExperimentDetail) else [subject]
    is_bad = any(
        run.state in {"FAILED", "CANCELLED"} or (run.total and run.failed > ERROR_RATE_LIMIT * run.total)
        for run in runs
    )
    return exits.RUN_FAILED if is_bad else exits.OK


@contextmanager
def detaching(subject: RunDetail | ExperimentDetail) -> Iterator[None]:
    """On Ctrl-C, print how to follow the run or experiment again and how to cancel it; it continues meanwhile."""
    try:
        yield
    except KeyboardInterrupt:
        note(f"\n{subject.name} continues in the stack. To follow it: vlmhyperbench watch {subject.id}")
        note(f"To cancel it: vlmhyperbench cancel {subject.id}")
        raise
