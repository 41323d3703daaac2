"""What the suite found of each client, round by round, and what a token and a request cost by it; pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.loadgen_conformance.judging import Errors
from vlmhyperbench.domain.arrivals import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What one run took, and what it did."""

    cpu_s: float
    requests: int
    tokens: int


@dataclass(slots=True)
class Round:
    """What one round found of one client; None where it failed, or where nobody states it."""

    accurate: Errors | None = None
    tokens_per_s_share: float | None = None
    """Reported output tokens a second over the true ones."""
    cpu_s_per_100k_tokens: float | None = None
    cpu_s_per_1k_requests: float | None = None
    first_request_s: float | None = None
    startup_s: float | None = None
    """Of what measures, without the command that starts it; as it says itself."""
    peak_rss_bytes: int | None = None
    """Of all processes, sampled from outside."""
    itself_rss_bytes: int | None = None
    """Of what measures and its parent, as they say."""
    measuring_rss_bytes: int | None = None
    processes: int | None = None
    connections: int | None = None
    send_lag_p50_ms: float | None = None
    send_lag_p99_ms: float | None = None
    narrow_cpu_s_per_100k_tokens: float | None = None
    """Of 64 streams and one measuring process, in the load that `wide` is compared with."""
    wide_cpu_s_per_100k_tokens: float | None = None
    """Of 1,024 streams over two measuring processes."""
    arrivals: dict[str, Shape] = field(default_factory=dict)
    """Process → what arrived at the server."""

    @property
    def wide_over_narrow(self) -> float | None:
        """What a token costs of many streams over what it costs of few."""
        narrow, wide = self.narrow_cpu_s_per_100k_tokens, self.wide_cpu_s_per_100k_tokens
        return wide / narrow if narrow and wide is not None else None


@dataclass(slots=True)
class Findings:
    """Everything that the suite found."""

    faults: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """(stream, client) → what it says wrongly."""
    rounds: dict[str, list[Round]] = field(default_factory=dict)
    """Client → its rounds; where it takes part in fewer than others, they are the first ones."""
    server_late_p99_ms: list[float] = field(default_factory=list)
    wide_late_p99_ms: list[float] = field(default_factory=list)
    """The same at 1,024 streams."""
    failures: list[str] = field(default_factory=list)

    @property
    def has_arrivals(self) -> bool:
        """Whether anybody was asked for arrivals."""
        return any(one.arrivals for rounds in self.rounds.values() for one in rounds)


def per_token(small: Spent, large: Spent) -> float:
    """Return the CPU seconds of a streamed token: what the larger run took more, over the tokens that it had more."""
    return (large.cpu_s - small.cpu_s) / (large.tokens - small.tokens)


def per_request(small: Spent, large: Spent, *, per_token_s: float) -> float:
    """Return the CPU seconds of a one-token request.

    Args:
        small: A run of longer answers; what their tokens after the first cost is taken off.
        large: A run of one-token requests.
        per_token_s: As `per_token` says; 0 where nobody knows, which leaves those few tokens in the start-up.
    """
    further = (large.tokens - large.requests) - (small.tokens - small.requests)
    return (large.cpu_s - small.cpu_s - further * per_token_s) / (large.requests - small.requests)
