"""The core of the live feed: cursors that survive a reconnection, so that each event is seen once, in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from pydantic import ValidationError
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from vlmhyperbench.errors import Denied, InvalidInput, Unavailable, VlmHyperBenchError
from vlmhyperbench.wire.live import (
    BAD_MESSAGE,
    LIVE_MESSAGE,
    UNAUTHORISED,
    Cursor,
    LiveEvent,
    LiveProgress,
    LiveRefusal,
    Snapshot,
    Subscribe,
)

Live = Snapshot | LiveEvent | LiveProgress | LiveRefusal

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0


class Cursors:
    """What is followed, and the last event seen of each."""

    def __init__(self, streams: Iterable[UUID | str], since: Mapping[UUID | str, int] | None = None) -> None:
        start = {UUID(str(stream)): seq for stream, seq in (since or {}).items()}
        self.seen = {UUID(str(stream)): start.get(UUID(str(stream)), 0) for stream in streams}

    def subscription(self) -> str:
        """Write the message that subscribes to everything after what was seen."""
        cursors = [Cursor(stream=stream, since=seq) for stream, seq in self.seen.items()]
        return Subscribe(subscribe=cursors).model_dump_json()

    def accept(self, text: str | bytes) -> Live | None:
        """Read a message; None for an event that was seen before.

        Raises:
            Unavailable: the server skipped an event, or sent what is no message; connecting anew repairs it.
        """
        try:
            message = LIVE_MESSAGE.validate_json(text)
        except ValidationError as error:
            raise Unavailable("The live feed sent what is not a message.") from error
        if isinstance(message, LiveEvent):
            seen = self.seen.get(message.stream, 0)
            if message.seq <= seen:
                return None
            if message.seq != seen + 1:
                raise Unavailable(f"The live feed skipped from event {seen} to {message.seq}.")
            self.seen[message.stream] = message.seq
        return message


def fatal_of(error: Exception) -> VlmHyperBenchError | None:
    """Return what to raise where connecting anew cannot help, else None."""
    if isinstance(error, InvalidStatus) and error.response.status_code in {401, 403}:
        return Denied("The live feed refused the API key.", cure="Check VLMHB_API_KEY, or start the stack anew.")
    if isinstance(error, ConnectionClosed) and error.rcvd is not None:
        if error.rcvd.code == UNAUTHORISED:
            return Denied("The live feed refused the API key.", cure="Check VLMHB_API_KEY.")
        if error.rcvd.code == BAD_MESSAGE:
            return InvalidInput(f"The live feed refused the subscription: {error.rcvd.reason}.")
    return None


CONNECTION_ERRORS = (OSError, TimeoutError, WebSocketException, Unavailable)
"""What connecting anew may repair."""


def given_up(error: Exception, give_up_s: float) -> Unavailable:
    """Say that the feed did not come back."""
    return Unavailable(f"The live feed has not answered for {give_up_s:.0f} s: {error}", cure="Is the stack up?")
