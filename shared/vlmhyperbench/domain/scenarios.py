"""How the requests of a run are driven: when each leaves, how many, and what limits their times should keep."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from vlmhyperbench.domain.base import Name, Refused, Spec
from vlmhyperbench.domain.slo import slo_metric
from vlmhyperbench_sdk.errors import InvalidInput


class Slo(Spec):
    """Limits in milliseconds by name of the statistic, as `ttft_p99`; without a percentile it is the 99th."""

    limits_ms: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)

    @field_validator("limits_ms")
    @classmethod
    def _are_limits(cls, limits: dict[str, float]) -> dict[str, float]:
        try:
            for name in limits:
                slo_metric(name)
        except InvalidInput as error:
            raise Refused(error.message.removesuffix("."), cure=error.cure) from error
        return limits


MOST_REQUESTS = 1_000_000
"""Of one timed phase."""

ScenarioKind = Literal["offline", "single_stream", "multi_stream", "server", "interactive"]


class ArrivalSpec(Spec):
    """When the requests of an open loop are sent, whatever becomes of them (`domain.arrivals.Arrivals`)."""

    process: Literal["constant", "poisson", "gamma", "burst", "ramp"] = "poisson"
    rate_per_s: Annotated[float, Field(ge=1e-6, le=100_000)]
    """Requests a second on average; of a ramp, its first rate."""
    last_rate_per_s: Annotated[float, Field(ge=1e-6, le=100_000)] | None = None
    """Of a ramp: the rate at its end."""
    cv: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    """Of gamma: standard deviation of the gaps over their mean."""
    burst_size: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Of burst: so many leave at once."""

    @model_validator(mode="after")
    def _is_whole(self) -> ArrivalSpec:
        if (self.process == "ramp") != (self.last_rate_per_s is not None):
            cure = "Add last_rate_per_s." if self.process == "ramp" else "Leave out last_rate_per_s."
            raise Refused("a ramp, and nothing else, has the rate at its end: last_rate_per_s", cure=cure)
        return self

    @property
    def mean_rate_per_s(self) -> float:
        """Requests a second over the whole."""
        return self.rate_per_s if self.last_rate_per_s is None else (self.rate_per_s + self.last_rate_per_s) / 2


class ScenarioFields(Spec):
    """How requests are driven. `offline` is the accuracy phase: every sample once, resumable at the sample.

    The others are timed, and restart whole: `single_stream` sends when the answer before has come, `multi_stream` does
    so in several loops of their own, `server` sends at instants drawn before, `interactive` asks questions about the
    same pages in one conversation.
    """

    kind: ScenarioKind = "offline"
    in_flight: Annotated[int, Field(ge=1, le=4096)] = 4
    """Closed-loop streams, of which single_stream has one; of server, connections that are ready beforehand."""
    warmup_requests: Annotated[int, Field(ge=0, le=10_000)] = 2
    requests: Annotated[int, Field(ge=1, le=MOST_REQUESTS)] | None = None
    """Bound of a timed phase; None means every sample once, where there is no duration either."""
    duration_s: Annotated[float, Field(gt=0, le=86_400)] | None = None
    """Of server, in place of `requests`: as many as so many seconds hold at the mean rate."""
    arrivals: ArrivalSpec | None = None
    """Of server."""
    baseline_requests: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Of multi_stream: so many requests one after the other, just before, tell what the streams cost each other."""
    turns: Annotated[int, Field(ge=1, le=100)] = 1
    """Of interactive: most questions of one conversation."""
    think_s: Annotated[float, Field(ge=0, le=3600)] = 0.0
    """Of interactive: from the end of an answer to the next question."""
    seed: int = 0
    slo: Slo = Slo()

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if self.kind == "server" and self.arrivals is None:
            raise Refused("a server scenario needs arrivals", cure="Add arrivals: {rate_per_s: 2}.")
        if self.kind != "server" and self.arrivals is not None:
            message = f"{self.kind} sends when an answer has come and has no arrivals; server has"
            raise Refused(message, cure="Leave out arrivals, or choose the kind server.")
        if self.kind != "multi_stream" and self.baseline_requests:
            message = f"{self.kind} has no streams to compare with a baseline; multi_stream has"
            raise Refused(message, cure="Leave out baseline_requests, or choose the kind multi_stream.")
        if (self.kind == "interactive") != (self.turns > 1) or (self.think_s and self.kind != "interactive"):
            message = "interactive, and nothing else, has turns (2 or more) and may have think_s"
            cure = "Add turns." if self.kind == "interactive" else "Leave out turns and think_s."
            raise Refused(message, cure=cure)
        if self.kind == "offline" and self.requests is not None:
            raise Refused("offline asks every sample once", cure="Bound the dataset by its limit instead of requests.")
        if self.duration_s is not None and (self.requests is not None or self.arrivals is None):
            cure = "Write either requests or, for server, duration_s."
            raise Refused("only server has a duration_s, in place of requests", cure=cure)
        if (self.bound or 0) > MOST_REQUESTS:
            raise Refused(f"{self.bound:,} requests are more than {MOST_REQUESTS:,}", cure="Shorten duration_s.")
        return self

    @property
    def bound(self) -> int | None:
        """Requests of a timed phase; None means every sample once."""
        if self.duration_s is None or self.arrivals is None:
            return self.requests
        return max(1, round(self.arrivals.mean_rate_per_s * self.duration_s))


class ScenarioSpec(ScenarioFields):
    """A scenario with its name."""

    name: Name = "offline"
    version: str = "1.0.0"

    @property
    def is_timed(self) -> bool:
        """It restarts whole: its phase belongs to the claim that measures it."""
        return self.kind != "offline"

    @property
    def streams(self) -> int:
        """Requests under way at a time; of an open loop, connections that are ready beforehand."""
        return 1 if self.kind == "single_stream" else self.in_flight

    @property
    def in_words(self) -> str:
        """How it sends, as in `an open loop with poisson arrivals at 2 requests per second`."""
        if self.kind == "interactive":
            pauses = f", {self.think_s:g} s between them" if self.think_s else ""
            several = "s" if self.in_flight > 1 else ""
            return f"{self.in_flight} conversation{several} at a time of up to {self.turns} questions{pauses}"
        if self.arrivals is None:
            return f"a closed loop with {self.streams} request{'s' if self.streams > 1 else ''} in flight"
        rate = f"{self.arrivals.rate_per_s:g}"
        if self.arrivals.last_rate_per_s is not None:
            rate += f" to {self.arrivals.last_rate_per_s:g}"
        return f"an open loop with {self.arrivals.process} arrivals at {rate} requests per second"
