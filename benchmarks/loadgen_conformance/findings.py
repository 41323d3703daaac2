"""The figures of each client in each round, and the cost of a token and of a request; pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.loadgen_conformance.checking import Errors
from vlmhyperbench.domain.arrivals import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The CPU time of one run, and its requests and tokens."""

    cpu_s: float
    requests: int
    tokens: int


@dataclass(slots=True)
class Round:
    """The figures of one client in one round; None if the client failed or does not report the figure."""

    errors: Errors | None = None
    tokens_per_s_share: float | None = None
    """Reported output tokens per second divided by the true ones."""
    cpu_s_per_100k_tokens: float | None = None
    cpu_s_per_1k_requests: float | None = None
    first_request_s: float | None = None
    startup_s: float | None = None
    """Start-up of the load generator without the command that starts it, as reported by itself."""
    peak_rss_bytes: int | None = None
    """Memory of all processes, sampled from outside."""
    loadgen_rss_bytes: int | None = None
    """Memory of measuring processes and their parent, as reported by themselves."""
    measuring_rss_bytes: int | None = None
    processes: int | None = None
    connections: int | None = None
    send_lag_p50_ms: float | None = None
    send_lag_p99_ms: float | None = None
    narrow_cpu_s_per_100k_tokens: float | None = None
    """Cost with 64 streams and one measuring process, which `wide` is compared with."""
    wide_cpu_s_per_100k_tokens: float | None = None
    """Cost with 1,024 streams over two measuring processes."""
    arrivals: dict[str, Shape] = field(default_factory=dict)
    """Arrival process → the shape of the arrivals at the server."""

    @property
    def wide_over_narrow(self) -> float | None:
        """The cost of a token with 1,024 streams divided by its cost with 64."""
        narrow, wide = self.narrow_cpu_s_per_100k_tokens, self.wide_cpu_s_per_100k_tokens
        return wide / narrow if narrow and wide is not None else None


@dataclass(slots=True)
class Findings:
    """All results of the suite."""

    faults: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """(stream, client) → the figures that the client reports wrongly."""
    rounds: dict[str, list[Round]] = field(default_factory=dict)
    """Client → its rounds, from the first round on."""
    server_late_p99_ms: list[float] = field(default_factory=list)
    wide_late_p99_ms: list[float] = field(default_factory=list)
    """`server_late_p99_ms` at 1,024 streams."""
    failures: list[str] = field(default_factory=list)

    @property
    def has_arrivals(self) -> bool:
        """Whether any client was run at a rate."""
        return any(figures.arrivals for rounds in self.rounds.values() for figures in rounds)


def per_token(small: Spent, large: Spent) -> float:
    """Return the CPU seconds per streamed token: the difference of two runs divided by that of their tokens."""
    return (large.cpu_s - small.cpu_s) / (large.tokens - small.tokens)


def per_request(small: Spent, large: Spent, *, per_token_s: float) -> float:
    """Return the CPU seconds of a one-token request.

    Args:
        small: A run of longer answers; the cost of their tokens after the first is subtracted.
        large: A run of one-token requests.
        per_token_s: The result of `per_token`; 0 if it is unknown, which counts those few tokens as start-up.
    """
    further = (large.tokens - large.requests) - (small.tokens - small.requests)
    return (large.cpu_s - small.cpu_s - further * per_token_s) / (large.requests - small.requests)
