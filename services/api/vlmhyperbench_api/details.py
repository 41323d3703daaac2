"""The newest samples, resources and log lines of runs on their way to clients: bounded, conflated where too many."""

from __future__ import annotations

from uuid import UUID

from vlmhyperbench.bus import Detail, LinesLogged, ResourcesSampled, SamplesDone
from vlmhyperbench.wire.live import LiveLine, LiveLines, LiveResources, LiveSample, LiveSamples

MAX_WAITING = 500
"""Samples, or lines, that wait for one client; older ones are left out and counted."""
MAX_RECENT = 200
"""Lines of a run that a client gets which begins to follow its logs."""

LiveDetail = LiveSamples | LiveResources | LiveLines


class Details:
    """The details of the runs that at least one client of this process follows."""

    def __init__(self) -> None:
        self._seen: dict[UUID, dict[tuple[UUID, str], int]] = {}
        """Run → claim and source of lines → number of its last line: a worker repeats lines for new listeners."""
        self._recent: dict[UUID, LiveLines] = {}

    def take(self, detail: Detail) -> LiveDetail | None:
        """Turn a worker's message into that of clients; None if it has nothing new."""
        match detail:
            case SamplesDone():
                samples = [LiveSample.model_validate(sample.model_dump()) for sample in detail.samples]
                return LiveSamples(stream=detail.run_id, samples=samples, left_out=detail.left_out)
            case ResourcesSampled():
                return LiveResources(stream=detail.run_id, at=detail.at, resources=detail.resources)
            case LinesLogged():
                return self._take_lines(detail)

    def recent(self, run_id: UUID) -> LiveLines | None:
        """Return the last lines of a run, for a client that begins to follow its logs."""
        return self._recent.get(run_id)

    def forget(self, run_id: UUID) -> None:
        """Forget the lines of a run that no client follows any more."""
        self._seen.pop(run_id, None)
        self._recent.pop(run_id, None)

    def _take_lines(self, logged: LinesLogged) -> LiveLines | None:
        seen = self._seen.setdefault(logged.run_id, {})
        lines: list[LiveLine] = []
        for line in logged.lines:
            source = (logged.claim_id, line.source)
            if line.no > seen.get(source, -1):
                seen[source] = line.no
                lines.append(LiveLine(source=line.source, text=line.text))
        if not lines:
            return None
        message = LiveLines(stream=logged.run_id, lines=lines, left_out=logged.left_out)
        recent = merge(self._recent.get(logged.run_id), message, limit=MAX_RECENT)
        if isinstance(recent, LiveLines):
            self._recent[logged.run_id] = recent.model_copy(update={"left_out": 0})
        return message


def merge(waiting: LiveDetail | None, new: LiveDetail, *, limit: int = MAX_WAITING) -> LiveDetail:
    """Add a message to one of its kind that was not sent yet; of resources only the newest counts."""
    match waiting, new:
        case LiveSamples(), LiveSamples():
            samples = [*waiting.samples, *new.samples]
            left_out = waiting.left_out + new.left_out + max(0, len(samples) - limit)
            return LiveSamples(stream=new.stream, samples=samples[-limit:], left_out=left_out)
        case LiveLines(), LiveLines():
            lines = [*waiting.lines, *new.lines]
            left_out = waiting.left_out + new.left_out + max(0, len(lines) - limit)
            return LiveLines(stream=new.stream, lines=lines[-limit:], left_out=left_out)
    return new
