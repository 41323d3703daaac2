"""Follow a run or an experiment over the live feed until it has ended: what `run`, `watch` and `demo` share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.output import note
from vlmhyperbench.cli.progress import Display, open_display
from vlmhyperbench.cli.shown import Shown
from vlmhyperbench.client import Client
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.wire.live import LiveEvent, LiveProgress, LiveRefusal, Snapshot
from vlmhyperbench.wire.runs import ExperimentDetail, RunDetail

ERROR_RATE_LIMIT = 0.05
"""Share of requests without an answer above which a finished run exits with 4."""

_RUN_ENDS = frozenset({"run.succeeded", "run.partial", "run.failed", "run.cancelled"})


@dataclass(slots=True)
class Followed:
    """What is being followed: the names of the runs, and which of them are still open."""

    subject: RunDetail | ExperimentDetail
    names: dict[UUID, str] = field(default_factory=dict)
    open: set[UUID] = field(default_factory=set)

    @classmethod
    def of(cls, subject: RunDetail | ExperimentDetail) -> Followed:
        runs = subject.runs if isinstance(subject, ExperimentDetail) else [subject]
        return cls(
            subject=subject,
            names={run.id: run.name for run in runs},
            open={run.id for run in runs if not run.state.is_terminal},
        )

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will happen; an experiment ends after its runs, with its own report."""
        return not self.open and self.subject.state.is_terminal


def find(client: Client, wanted: str) -> RunDetail | ExperimentDetail:
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


def follow(client: Client, subject: RunDetail | ExperimentDetail, shown: Shown) -> RunDetail | ExperimentDetail:
    """Show progress until the subject has ended, and return how it ended.

    Raises:
        Unavailable: the live feed does not come back.
    """
    followed = Followed.of(subject)
    names = followed.names | {subject.id: subject.name}
    with open_display(names, is_quiet=shown.quiet or shown.json) as display:
        if not followed.has_ended:
            _listen(client, followed, display)
        return find(client, str(subject.id))


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


def _listen(client: Client, followed: Followed, display: Display) -> None:
    streams = [followed.subject.id, *(run for run in followed.names if run != followed.subject.id)]
    since: dict[UUID | str, int] = {followed.subject.id: followed.subject.event_seq}
    if isinstance(followed.subject, ExperimentDetail):
        since.update((run.id, run.event_seq) for run in followed.subject.runs)
    for message in client.live(streams, since=since):
        match message:
            case Snapshot():
                _apply_snapshot(message, followed, display)
            case LiveEvent():
                _apply_event(message, followed, display)
            case LiveProgress():
                display.progress(message.progress)
            case LiveRefusal():
                raise NotFound(message.message)
        if not followed.open:
            followed.subject = find(client, str(followed.subject.id))
            if followed.has_ended:
                return


def _apply_snapshot(message: Snapshot, followed: Followed, display: Display) -> None:
    for progress in message.progress:
        display.progress(progress)
    if message.kind == "run" and isinstance(message.data, dict):
        display.state(message.stream, str(message.data["state"]))
        if message.data.get("finished_at"):
            followed.open.discard(message.stream)


def _apply_event(message: LiveEvent, followed: Followed, display: Display) -> None:
    if not isinstance(message.event, dict):
        return
    kind = str(message.event.get("type", ""))
    if message.stream in followed.names and kind.startswith("run."):
        display.state(message.stream, kind.removeprefix("run.").upper())
        if kind in _RUN_ENDS:
            followed.open.discard(message.stream)
