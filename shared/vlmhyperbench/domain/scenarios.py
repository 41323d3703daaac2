"""How the requests of a run are sent: their instants, their number, and the limits that their times should meet."""

from __future__ import annotations

import itertools
import operator
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from vlmhyperbench.domain.base import Name, Refused, Spec
from vlmhyperbench.domain.presets import SAMPLES_PER_QUERY, Preset
from vlmhyperbench.domain.slo import slo_metric
from vlmhyperbench_sdk.errors import InvalidInput


class Slo(Spec):
    """Limits in milliseconds by name of the statistic, such as `ttft_p99`; the default percentile is the 99th."""

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


MAX_REQUESTS = 1_000_000
"""Maximum number of requests of a timed phase."""

ScenarioKind = Literal["offline", "single_stream", "multi_stream", "server", "interactive"]


MAX_CONVERSATIONS = 4096
"""Maximum number of conversations that arrive at a rate, because each has a stream of its own."""

MAX_TRACED = 10_000
"""Maximum number of requests of a trace, which is a part of the spec."""

TracedTokens = Annotated[int, Field(ge=1, le=10_000_000)] | None


class ArrivalSpec(Spec):
    """When the requests of an open loop are sent, independent of the answers (`domain.arrivals.Arrivals`)."""

    process: Literal["constant", "poisson", "gamma", "burst", "ramp", "trace"] = "poisson"
    rate_per_s: Annotated[float, Field(ge=1e-6, le=100_000)]
    """Mean rate in requests per second; the initial rate of a ramp."""
    last_rate_per_s: Annotated[float, Field(ge=1e-6, le=100_000)] | None = None
    """Ramp only: the final rate."""
    cv: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    """Gamma only: standard deviation of the gaps over their mean."""
    burst_size: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Burst only: number of requests that are sent together."""
    times_s: Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(max_length=MAX_TRACED)] = Field(
        default=(), exclude_if=operator.not_
    )
    """Trace only: seconds after the first request, ascending; left out otherwise, so that digests did not change."""
    output_tokens: Annotated[tuple[TracedTokens, ...], Field(max_length=MAX_TRACED)] = Field(
        default=(), exclude_if=operator.not_
    )
    """Trace only: maximum length of each answer, where the trace states it; null: that of the decoding."""

    @model_validator(mode="after")
    def _is_a_trace(self) -> ArrivalSpec:
        if (self.process == "trace") != bool(self.times_s):
            cure = "Add it." if self.process == "trace" else "Leave it out, or choose the process trace."
            raise Refused("the process trace, and only that one, has times_s", cure=cure)
        if any(later < earlier for earlier, later in itertools.pairwise(self.times_s)):
            raise Refused("times_s does not ascend", cure="Sort the trace by time.")
        if self.output_tokens and len(self.output_tokens) != len(self.times_s):
            raise Refused(
                "output_tokens has not one number for each of times_s", cure="Give as many, null where unknown."
            )
        return self

    @model_validator(mode="after")
    def _is_whole(self) -> ArrivalSpec:
        if (self.process == "ramp") != (self.last_rate_per_s is not None):
            cure = "Add it." if self.process == "ramp" else "Leave it out, or choose the process ramp."
            message = "a ramp needs last_rate_per_s" if self.process == "ramp" else "only a ramp has last_rate_per_s"
            raise Refused(message, cure=cure)
        return self

    @property
    def mean_rate_per_s(self) -> float:
        """Mean rate over the whole phase, in requests per second."""
        return self.rate_per_s if self.last_rate_per_s is None else (self.rate_per_s + self.last_rate_per_s) / 2


class ScenarioFields(Spec):
    """How requests are sent. `offline` is the accuracy phase: every sample once, resumed at the first missing sample.

    The others are timed and restart as a whole, as `offline` does with a number of requests: `single_stream` sends a
    request when the previous answer is complete, `multi_stream` does so in several independent streams, `server` sends
    at instants that are drawn beforehand, and `interactive` asks several questions about the same pages in one
    conversation.
    """

    kind: ScenarioKind = "offline"
    in_flight: Annotated[int, Field(ge=1, le=4096)] = 4
    """Number of closed-loop streams (single_stream has one); for server, number of connections opened beforehand; of
    no effect for conversations that arrive at a rate."""
    warmup_requests: Annotated[int, Field(ge=0, le=10_000)] = 2
    requests: Annotated[int, Field(ge=1, le=MAX_REQUESTS)] | None = None
    """Number of requests of a timed phase; None, without a duration, means every sample once. An offline phase with it
    is timed."""
    duration_s: Annotated[float, Field(gt=0, le=86_400)] | None = None
    """With arrivals only, instead of `requests`: as many requests as this duration has at the mean rate."""
    arrivals: ArrivalSpec | None = None
    """Server: when requests are sent. Interactive: when conversations begin, in place of `in_flight` at a time."""
    baseline_requests: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Multi_stream only: number of requests sent one after the other beforehand, as a baseline without concurrency."""
    turns: Annotated[int, Field(ge=1, le=100)] = 1
    """Interactive only: maximum number of questions of a conversation."""
    think_s: Annotated[float, Field(ge=0, le=3600)] = 0.0
    """Interactive only: pause between the end of an answer and the next question."""
    preset: Preset | None = Field(default=None, exclude_if=lambda preset: preset is None)
    """The rules that the measurement has to keep, `official` for example those of MLPerf; of timed scenarios only."""
    seed: int = 0
    slo: Slo = Slo()

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if self.kind == "server" and self.arrivals is None:
            raise Refused("the kind server needs arrivals", cure="Add arrivals: {rate_per_s: 2}.")
        if self.kind not in ("server", "interactive") and self.arrivals is not None:
            message = f"only the kinds server and interactive have arrivals; this scenario is of the kind {self.kind}"
            raise Refused(message, cure="Leave out arrivals, or choose the kind server.")
        if self.kind != "multi_stream" and self.baseline_requests:
            message = f"only the kind multi_stream has baseline_requests; this scenario is of the kind {self.kind}"
            raise Refused(message, cure="Leave out baseline_requests, or choose the kind multi_stream.")
        if (self.kind == "interactive") != (self.turns > 1) or (self.think_s and self.kind != "interactive"):
            if self.kind == "interactive":
                raise Refused("the kind interactive needs 2 or more turns", cure="Add turns: 2.")
            message = f"only the kind interactive has turns and think_s; this scenario is of the kind {self.kind}"
            raise Refused(message, cure="Leave out turns and think_s, or choose the kind interactive.")
        if self.duration_s is not None and (self.requests is not None or self.arrivals is None):
            message = "only a scenario with arrivals has duration_s, and then no requests"
            raise Refused(message, cure="Leave out duration_s, or choose the kind server and leave out requests.")
        if self.preset is not None:
            self._check_preset(self.preset)
        if self.kind == "interactive" and self.arrivals is not None:
            self._check_conversations(self.arrivals)
        if self.arrivals is not None and self.arrivals.times_s and (self.requests or self.duration_s):
            raise Refused("a trace has its own number of requests", cure="Leave out requests and duration_s.")
        if (self.bound or 0) > MAX_REQUESTS:
            message = f"the scenario has {self.bound:,} requests, more than {MAX_REQUESTS:,}"
            raise Refused(message, cure="Shorten duration_s, or lower the rate.")
        return self

    def _check_preset(self, preset: Preset) -> None:
        """Refuse a preset whose rules the scenario cannot keep.

        Raises:
            Refused: the scenario is no timed one, or has another number of streams than a query of it has samples.
        """
        if self.kind == "offline" and self.requests is None:
            message = (
                "an offline scenario without requests asks every sample once and is not timed, so it has no preset"
            )
            raise Refused(message, cure="Add requests, or leave out preset.")
        if preset != "quick" and self.kind == "multi_stream" and self.in_flight != SAMPLES_PER_QUERY:
            message = f"queries of the preset {preset} have {SAMPLES_PER_QUERY} samples, not {self.in_flight}"
            raise Refused(message, cure=f"Set in_flight to {SAMPLES_PER_QUERY}.")

    def _check_conversations(self, arrivals: ArrivalSpec) -> None:
        """Refuse conversations whose beginnings cannot be drawn or held.

        Raises:
            Refused: they would arrive by a trace, or there are too many.
        """
        if arrivals.times_s:
            raise Refused("conversations do not arrive by a trace", cure="Choose another process, or the kind server.")
        if (self.bound or 0) > MAX_CONVERSATIONS * self.turns:
            message = f"more than {MAX_CONVERSATIONS:,} conversations would arrive, and each has a stream of its own"
            raise Refused(message, cure="Lower the rate, duration_s or requests.")

    @property
    def bound(self) -> int | None:
        """Number of requests of a timed phase; None means every sample once."""
        if self.arrivals is not None and self.arrivals.times_s:
            return len(self.arrivals.times_s)
        if self.duration_s is None or self.arrivals is None:
            return self.requests
        return self.turns * max(1, round(self.arrivals.mean_rate_per_s * self.duration_s))


class ScenarioSpec(ScenarioFields):
    """A scenario with its name."""

    name: Name = "offline"
    version: str = "1.0.0"

    @property
    def is_timed(self) -> bool:
        """Whether it restarts as a whole, so that its phase belongs to the claim that measures it."""
        return self.kind != "offline" or self.requests is not None

    @property
    def streams(self) -> int:
        """Maximum number of requests in flight; for an open loop, number of connections opened beforehand."""
        return 1 if self.kind == "single_stream" else self.in_flight

    @property
    def in_words(self) -> str:
        """How it sends requests: `an open loop with poisson arrivals at 2 requests per second`."""
        if self.kind == "interactive":
            pauses = f", {self.think_s:g} s between them" if self.think_s else ""
            of = f"of up to {self.turns} questions{pauses}"
            if self.arrivals is not None:
                return f"conversations {of}, with {self.arrivals.process} arrivals at {_rate(self.arrivals)} per second"
            return f"{self.in_flight} conversation{'s' if self.in_flight > 1 else ''} at a time {of}"
        if self.arrivals is None:
            return f"a closed loop with {self.streams} request{'s' if self.streams > 1 else ''} in flight"
        if self.arrivals.times_s:
            return f"a trace of {len(self.arrivals.times_s):,} requests over {self.arrivals.times_s[-1]:g} s"
        return f"an open loop with {self.arrivals.process} arrivals at {_rate(self.arrivals)} requests per second"


def _rate(arrivals: ArrivalSpec) -> str:
    until = "" if arrivals.last_rate_per_s is None else f" to {arrivals.last_rate_per_s:g}"
    return f"{arrivals.rate_per_s:g}{until}"
