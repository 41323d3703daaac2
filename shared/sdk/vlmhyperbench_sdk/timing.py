"""When the bytes of one answer arrived, and the per-request times that follow from that."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Instants on one monotonic clock, in nanoseconds; only differences mean anything.

    Events are token-bearing only (content, reasoning, tool call): a role-only or usage-only event is not one.
    """

    scheduled_ns: int
    sent_ns: int
    event_ns: tuple[int, ...]
    """When each token-bearing event arrived, in order. Shape: (events,)."""
    event_tokens: tuple[int, ...]
    """Output tokens in each event. Shape: (events,)."""
    stream_end_ns: int
    """When the stream closed; latency ends at the last token-bearing event, not here."""

    @property
    def queue_ns(self) -> int:
        """How late the client sent: sent minus scheduled."""
        return self.sent_ns - self.scheduled_ns

    @property
    def ttft_user_ns(self) -> int | None:
        """First token minus *scheduled*: what the user waits, the one SLOs mean. None without a token."""
        return self.event_ns[0] - self.scheduled_ns if self.event_ns else None

    @property
    def ttft_service_ns(self) -> int | None:
        """First token minus *sent*: what the service took. None without a token."""
        return self.event_ns[0] - self.sent_ns if self.event_ns else None

    @property
    def latency_ns(self) -> int | None:
        """Last token-bearing event minus scheduled. None without a token."""
        return self.event_ns[-1] - self.scheduled_ns if self.event_ns else None

    @property
    def tpot_ns(self) -> float | None:
        """Mean time per output token after the first burst, or None where no token follows it.

        Events that arrive in one read share their instant: they are one burst.
        """
        following = sum(
            tokens for at, tokens in zip(self.event_ns, self.event_tokens, strict=True) if at > self.event_ns[0]
        )
        return (self.event_ns[-1] - self.event_ns[0]) / following if following > 0 else None
