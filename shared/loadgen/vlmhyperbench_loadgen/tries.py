"""One try of a request, and its answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from vlmhyperbench_loadgen.answers import ParsedAnswer, read_refusal, read_stream, read_whole
from vlmhyperbench_loadgen.clocks import SHARED
from vlmhyperbench_loadgen.connection import Response
from vlmhyperbench_loadgen.http1 import NotHttp
from vlmhyperbench_loadgen.table import Request
from vlmhyperbench_sdk.completions import BOM


@dataclass(slots=True)
class Try:
    """One try of one request, from the instant at which it was due until it ended."""

    request: Request
    number: int
    """1 for the first try."""
    scheduled_ns: int
    stream: int
    sent_ns: int | None = None
    """When the request was sent first, even if it was sent again on another connection: the client waits since then."""
    end_ns: int = 0
    response: Response = field(default_factory=Response, compare=False)
    failure: str | None = None
    """`code: message` if no whole answer was received."""
    after: Try | None = None
    """The try whose end made this one due, until both have the kernel's instants."""
    late_ns: int = 0
    """How much later than the kernel this process saw the end."""
    body: memoryview | None = None
    """The body that is sent in place of the planned body."""
    conversation: int | None = None
    """Number of the conversation whose turn this is."""
    build_ns: int | None = None
    """How long it took to parse the previous answer and to build the body of this turn."""

    @property
    def http_status(self) -> int | None:
        """Status of the answer, if its head was received."""
        return self.response.head.status if self.response.head is not None else None


def correct_due_time(done: Try) -> None:
    """If the end of another try made this one due, set that to the instant at which the kernel received the end."""
    if done.after is not None:
        use_kernel_times(done.after)
        done.scheduled_ns -= done.after.late_ns
        done.after = None


def use_kernel_times(done: Try) -> None:
    """Replace this process's instants of a try by the kernel's, also the instant at which the try was due."""
    correct_due_time(done)
    response = done.response
    if response.stamps:
        response.use_kernel_times(SHARED.after(done.end_ns))
        # An answer that ends with its connection ends later than its last read.
        ends_itself = response.head is not None and response.head.framing != "close"
        if response.is_stamped and done.failure is None and ends_itself:
            done.late_ns, done.end_ns = done.end_ns - response.times[-1], response.times[-1]


def read_try(done: Try) -> ParsedAnswer:
    """Parse the answer of a try, as far as it was received; never raises for what a server sent."""
    use_kernel_times(done)
    response = done.response
    head = response.head
    if head is None:
        return ParsedAnswer(error=done.failure)
    try:
        body = response.read_body()
        if not 200 <= head.status < 300:
            answer = ParsedAnswer(error=read_refusal(head.status, body.payload))
        elif _is_stream(head.headers.get(b"content-type", b""), body.payload):
            answer = read_stream(body, response.ends, response.times, is_complete=done.failure is None)
        elif done.failure is None:
            answer = read_whole(body.payload, response.times[-1])
        else:
            answer = ParsedAnswer()
    except NotHttp as error:
        answer = ParsedAnswer(error=f"bad_answer: its body is broken: {error}")
    answer.error = done.failure or answer.error
    return answer


def _is_stream(content_type: bytes, payload: bytes) -> bool:
    return content_type.lower().startswith(b"text/event-stream") or payload.removeprefix(BOM).startswith(b"data:")
