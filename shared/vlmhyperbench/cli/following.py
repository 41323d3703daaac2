"""Find a run or an experiment, and say how it ended: what the commands about one share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.output import note
from vlmhyperbench.client import Client, ExperimentHandle, RunHandle
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.wire.runs import ExperimentDetail, RunDetail

ERROR_RATE_LIMIT = 0.05
"""Share of requests without an answer above which a finished run exits with 4."""


def find(client: Client, wanted: str) -> RunHandle | ExperimentHandle:
    """Read the run or experiment of an id, whole or by its first digits.

    Raises:
        NotFound: there is neither.
        InvalidInput: it is no id, or the beginning of several.
    """
    found = client.identify(wanted)
    match found.kind:
        case "run":
            return client.runs.get(found.id)
        case "experiment":
            return client.experiments.get(found.id)
    raise InvalidInput(f"{wanted} is a file, {found.name}.", cure="Name a run or an experiment: `vlmhyperbench ls`.")


def outcome_code(subject: RunDetail | ExperimentDetail) -> int:
    """Return the exit code of what has ended: 4 where a run failed, was cancelled or had too many errors."""
    runs = subject.runs if isinstance(subject, ExperimentDetail) else [subject]
    is_bad = any(
        run.state in {"FAILED", "CANCELLED"} or (run.total and run.failed > ERROR_RATE_LIMIT * run.total)
        for run in runs
    )
    return exits.RUN_FAILED if is_bad else exits.OK


@contextmanager
def detaching(subject: RunDetail | ExperimentDetail) -> Iterator[None]:
    """On Ctrl-C say how to come back and how to cancel: what was submitted goes on."""
    try:
        yield
    except KeyboardInterrupt:
        note(f"\nDetached; it goes on. Resume: vlmhyperbench watch {subject.id}")
        note(f"Cancel: vlmhyperbench cancel {subject.id}")
        raise
