"""Cursors of the live feed: they survive reconnections, so that each event is delivered once, in order; no I/O."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from uuid import UUID

from pydantic import ValidationError
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from vlmhyperbench.domain.states import ExperimentState, RunState
from vlmhyperbench.errors import Denied, InvalidInput, NotReady, Unavailable, VlmHyperBenchError
from vlmhyperbench.wire.live import (
    BAD_MESSAGE,
    LIVE_MESSAGE,
    UNAUTHORISED,
    Cursor,
    DetailKind,
    Live,
    LiveEvent,
    LiveRefusal,
    Snapshot,
    Subscribe,
)

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
_KEY_CURE = "Check VLMHB_API_KEY, or restart the stack."
FIRST_PAUSE_S = 0.2
MAX_PAUSE_S = 5.0
_ENDS = frozenset(f"run.{state.lower()}" for state in RunState if state.is_terminal) | frozenset(
    f"experiment.{state.lower()}" for state in ExperimentState if state.is_terminal
)
"""Events after which nothing more happens to a run or an experiment."""


class Cursors:
    """The followed streams, each with the last event seen."""

    def __init__(
        self,
        streams: Iterable[UUID | str],
        since: Mapping[UUID | str, int] | None = None,
        details: Iterable[DetailKind] = (),
    ) -> None:
        self._details = tuple(sorted(set(details)))
        start = {UUID(str(stream)): seq for stream, seq in (since or {}).items()}
        self.seen = {UUID(str(stream)): start.get(UUID(str(stream)), 0) for stream in streams}
        self._last: dict[UUID, int] = {}
        """Ended stream → sequence number of its last event."""

    @property
    def is_over(self) -> bool:
        """Whether every followed stream has ended and all of its events were seen."""
        return all(seq >= self._last.get(stream, seq + 1) for stream, seq in self.seen.items())

    def subscription(self) -> str:
        """Return the message that subscribes to all events after the last one seen."""
        cursors = [Cursor(stream=stream, since=seq, details=self._details) for stream, seq in self.seen.items()]
        return Subscribe(subscribe=cursors).model_dump_json(by_alias=True)

    def accept(self, text: str | bytes) -> Live | None:
        """Parse a message; None for an event that was seen before.

        Raises:
            Unavailable: the server skipped an event or sent an invalid message; reconnecting recovers from both.
        """
        try:
            message = LIVE_MESSAGE.validate_json(text)
        except ValidationError as error:
            raise Unavailable("The live feed sent an invalid message.") from error
        match message:
            case Snapshot(data={"finished_at": str()}):
                self._last[message.stream] = message.seq
            case LiveRefusal():
                self._last[message.stream] = 0
            case LiveEvent(event={"type": kind}) if kind in _ENDS:
                self._last.setdefault(message.stream, message.seq)
        if isinstance(message, LiveEvent):
            seen = self.seen.get(message.stream, 0)
            if message.seq <= seen:
                return None
            if message.seq != seen + 1:
                raise Unavailable(f"The live feed skipped from event {seen} to {message.seq}.")
            self.seen[message.stream] = message.seq
        return message


def fatal_of(error: Exception) -> VlmHyperBenchError | None:
    """Return the error to raise where reconnecting cannot help, else None."""
    if isinstance(error, InvalidStatus) and error.response.status_code in {401, 403}:
        return Denied("The live feed refused the API key.", cure=_KEY_CURE)
    if isinstance(error, ConnectionClosed) and error.rcvd is not None:
        if error.rcvd.code == UNAUTHORISED:
            return Denied("The live feed refused the API key.", cure=_KEY_CURE)
        if error.rcvd.code == BAD_MESSAGE:
            message = f"The live feed refused the subscription: {error.rcvd.reason}."
            return InvalidInput(message, cure="Use a client of the same version as the stack.")
    return None


CONNECTION_ERRORS = (OSError, TimeoutError, WebSocketException, Unavailable)
"""Errors that reconnecting may resolve."""


class Deadline:
    """The instant at which waiting ends; without a timeout there is none."""

    def __init__(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s
        self._at = None if timeout_s is None else time.monotonic() + timeout_s

    def left_s(self) -> float | None:
        """Return the time left, or None without a timeout.

        Raises:
            NotReady: the deadline has passed.
        """
        if self._at is None:
            return None
        left = self._at - time.monotonic()
        if left <= 0:
            raise NotReady(
                f"The followed runs have not ended after {self._timeout_s:g} s; they continue.",
                cure="Follow them again, or set a longer timeout.",
                code="timeout",
            )
        return left


def given_up(error: Exception, give_up_s: float) -> Unavailable:
    """Return the error for a feed that could not be reached again."""
    message = f"The live feed has not answered for {give_up_s:.0f} s: {error}"
    return Unavailable(message, cure="Check the stack: vlmhyperbench status. Runs continue without this command.")


def stack_ended(error: Exception) -> Unavailable:
    """Return the error for a stack that will not answer again, since it has ended."""
    message = f"The stack has ended while its runs were followed: {error or type(error).__name__}"
    cure = "Read logs/supervisor.log in VLMHB_HOME. The same command, given again, starts a stack and continues."
    return Unavailable(message, cure=cure, code="stack_ended")
