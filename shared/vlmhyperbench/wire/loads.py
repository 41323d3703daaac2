"""Bodies of loads: a measurement of any endpoint without a data set of its own, as `vlmhyperbench load` makes it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, JsonValue, model_validator

from vlmhyperbench.domain.base import Refused
from vlmhyperbench.domain.presets import Preset
from vlmhyperbench.domain.scenarios import MAX_TRACED, Slo
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.registry.values import SecretName
from vlmhyperbench.wire.base import Input, Label, Output
from vlmhyperbench.wire.live import Progress
from vlmhyperbench.wire.runs import WaitsFor
from vlmhyperbench.wire.summaries import SpeedGate, Spread

LOAD_TASK = "load"
"""The registered task of loads."""
MAX_PROMPTS = 25_000
"""Prompts that are made; a longer load asks them again."""
MAX_STREAMS = 4096

TURNS, THINK_S = 4, 1.0
"""Of conversations, unless others are given."""

LoadScenario = Literal["server", "offline", "multi_stream", "single_stream", "interactive"]
Process = Literal["constant", "poisson", "gamma", "burst", "ramp"]
IMAGE_SIZES = r"^[0-9]{1,4}x[0-9]{1,4}(, ?[0-9]{1,4}x[0-9]{1,4}){0,19}$"


class TracedRequest(Input):
    """One request of a trace, as a line of the file of `vlmhyperbench load --trace`."""

    timestamp_s: Annotated[float, Field(ge=-1e15, le=1e15)]
    """Seconds from any origin."""
    prompt_tokens: Annotated[int, Field(ge=1, le=200_000)] | None = None
    output_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = None


class LoadCreate(Input):
    """A load: requests at a rate (`server`), a fixed number in flight (`offline`, `multi_stream` with its own share for
    each stream, `single_stream`), or conversations (`interactive`) at a rate or a fixed number at a time.
    """

    url: Annotated[str, Field(min_length=1, max_length=2000, examples=["http://127.0.0.1:8000/v1"])]
    """Base URL of an OpenAI-compatible API."""
    model: Annotated[str, Field(min_length=1, max_length=200)]
    name: Label | None = None
    scenario: LoadScenario = "server"
    preset: Preset | None = None
    """Duration, numbers and limits by rule, as `vlmhyperbench load --preset`; `interactive` then needs a rate."""
    rate_per_s: Annotated[float, Field(ge=1e-3, le=100_000)] | None = None
    """Requests per second of `server`; conversations per second of `interactive`."""
    arrivals: Process = "poisson"
    cv: Annotated[float, Field(ge=0.01, le=100)] | None = None
    """Only for `gamma`: coefficient of variation of the gaps between requests."""
    burst_size: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Only for `burst`: requests that are sent together."""
    to_rate_per_s: Annotated[float, Field(ge=1e-3, le=100_000)] | None = None
    """Only for `ramp`: requests per second at the end."""
    trace: Annotated[tuple[TracedRequest, ...], Field(max_length=MAX_TRACED)] = ()
    """Only for `server`, in place of a rate: requests that are replayed at their times."""
    speed: Annotated[float, Field(ge=1e-3, le=1e3)] = 1.0
    """Factor by which the trace is replayed faster."""
    concurrency: Annotated[int, Field(ge=1, le=MAX_STREAMS)] = 1
    """Requests in flight, or conversations at a time; for `server`, connections that are opened beforehand."""
    requests: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Not for `interactive`, which has `conversations`."""
    duration_s: Annotated[float, Field(gt=0, le=86_400)] | None = None
    """Instead of `requests` or `conversations`; only with a rate."""
    conversations: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Only for `interactive`: number of conversations."""
    turns: Annotated[int, Field(ge=2, le=100)] | None = None
    """Only for `interactive`: questions of each conversation, 4 unless given."""
    think_s: Annotated[float, Field(ge=0, le=3600)] | None = None
    """Only for `interactive`: seconds between an answer and the next question, 1 unless given."""
    prompt: Annotated[str, Field(min_length=1, max_length=100_000)] | None = None
    """Text of every prompt, in place of random words: a server with a prompt cache answers from it."""
    prompt_tokens: Annotated[int, Field(ge=1, le=200_000)] = 128
    """Random words of each prompt."""
    output_tokens: Annotated[int, Field(ge=1, le=200_000)] = 128
    images: Annotated[int, Field(ge=0, le=16)] = 0
    image_size: Annotated[str, Field(pattern=IMAGE_SIZES)] = "512x512"
    """Of several sizes, separated by commas, each image gets a random one."""
    image_reuse: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of images that repeat an image of an earlier request."""
    warmup: Annotated[int, Field(ge=0, le=10_000)] = 2
    baseline: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Only for `multi_stream`: requests that are sent one at a time first, for comparison."""
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 300.0
    """Time after which a request counts as failed."""
    seed: Annotated[int, Field(ge=0, le=2**53)] = 0
    slo: Slo = Slo()
    api_key_secret: SecretName | None = None
    """Name of the secret with the key, which workers have."""
    extra_body: dict[str, JsonValue] = Field(default_factory=dict)
    """Further fields of every request."""
    ignore_eos: bool = False
    """Ask the server for exactly `output_tokens` tokens (vLLM, SGLang and llama.cpp do it)."""

    @model_validator(mode="after")
    def _is_one_load(self) -> LoadCreate:
        is_server, is_interactive = self.scenario == "server", self.scenario == "interactive"
        if self.trace:
            if not is_server or self.rate_per_s is not None or self.requests is not None or self.duration_s is not None:
                message = "a trace is the scenario server, and has its own times and number of requests"
                raise Refused(message, cure="Leave out rate_per_s, requests and duration_s.")
        elif (self.rate_per_s is not None) != is_server and not is_interactive:
            cure = "Add rate_per_s or trace." if is_server else "Leave it out, or choose the scenario server."
            raise Refused("requests at a rate are the scenario server, which always has one", cure=cure)
        if self.duration_s is not None and self.rate_per_s is None:
            raise Refused("only a load with a rate has duration_s", cure="Give the number of requests in its place.")
        count = self.conversations if is_interactive else self.requests
        if self.preset is None and not self.trace and (count is None) == (self.duration_s is None):
            name = "conversations" if is_interactive else "requests"
            raise Refused(f"a load has either {name} or duration_s", cure="Give exactly one of them.")
        if self.baseline and self.scenario != "multi_stream":
            raise Refused("only the scenario multi_stream has a baseline", cure="Leave it out, or choose multi_stream.")
        return self

    @model_validator(mode="after")
    def _has_conversations(self) -> LoadCreate:
        is_interactive = self.scenario == "interactive"
        if is_interactive and self.requests is not None:
            raise Refused("interactive consists of conversations", cure="Give conversations in place of requests.")
        for name in ("conversations", "turns", "think_s"):
            if getattr(self, name) is not None and not is_interactive:
                raise Refused(f"only the scenario interactive has {name}", cure="Leave it out, or choose interactive.")
        return self

    @model_validator(mode="after")
    def _has_effect(self) -> LoadCreate:
        """Refuse values that would have none."""
        of_process = {"cv": "gamma", "burst_size": "burst", "to_rate_per_s": "ramp"}
        for name, process in of_process.items():
            if getattr(self, name) is not None and (self.arrivals != process or self.trace):
                raise Refused(f"only the arrivals {process} have {name}", cure=f"Leave it out, or choose {process}.")
        if self.arrivals == "ramp" and self.to_rate_per_s is None:
            raise Refused("a ramp needs to_rate_per_s", cure="Add it.")
        if self.speed != 1.0 and not self.trace:
            raise Refused("only a trace has a speed", cure="Leave it out, or add trace.")
        if self.image_reuse and not self.images:
            raise Refused("there is no image to reuse", cure="Add images, or leave out image_reuse.")
        return self


class LoadSweep(Input):
    """The same load at several values: one load each, together an experiment."""

    load: LoadCreate
    """The load; its own value of the axis is replaced."""
    axis: Literal["rate", "concurrency"]
    values: Annotated[tuple[Annotated[float, Field(ge=1e-3, le=100_000)], ...], Field(min_length=2, max_length=50)]

    @model_validator(mode="after")
    def _fits_its_load(self) -> LoadSweep:
        load = self.load
        if self.axis == "rate" and (load.rate_per_s is None or load.arrivals == "ramp"):
            raise Refused(
                "a sweep of the rate needs a load at a constant mean rate",
                cure="Choose server or interactive with a rate, without a ramp.",
            )
        if self.axis == "concurrency":
            if load.scenario == "single_stream" or load.rate_per_s is not None or load.trace:
                message = "a sweep of the concurrency needs a number of requests or conversations in flight"
                raise Refused(message, cure="Choose multi_stream or offline, or interactive without a rate.")
            if any(value != int(value) or value > MAX_STREAMS for value in self.values):
                cure = f"Give whole numbers up to {MAX_STREAMS}."
                raise Refused("a concurrency is a whole number of requests in flight", cure=cure)
        if len(set(self.values)) < len(self.values):
            raise Refused("a value comes twice", cure="Give each once.")
        return self


class LoadRepeats(Input):
    """The same load several times, each with another seed: together an experiment, whose values have means."""

    load: LoadCreate
    repeats: Annotated[int, Field(ge=2, le=50)]


class RepeatedValue(Output):
    """Mean of a metric over the repeats, with Student's t interval at 95 %."""

    n: int
    """Repeats with a value."""
    mean: float | None
    sd: float | None
    """Standard deviation between repeats."""
    low: float | None
    high: float | None
    reason: str | None
    """Why there is no mean or no interval."""


class LoadMeans(Output):
    """The means of the loads of an experiment that have ended."""

    repeats: int
    ended: int
    valid: bool | None
    """Whether every load that has ended is a valid measurement; None where a gate could not be checked."""
    metrics: dict[str, RepeatedValue]
    """By the names of `vlmhyperbench load --repeats --json`; percentiles with failed requests as infinite."""


class LoadRequests(Output):
    """Requests of a load by their outcome."""

    scheduled: int
    ok: int
    error: int


class LoadMeasured(Output):
    """What a load came to, with the names of `vlmhyperbench load --json`."""

    valid: bool | None
    """None where a gate could not be checked."""
    gates: list[SpeedGate]
    requests: LoadRequests
    duration_s: float | None
    metrics: dict[str, Spread]
    requests_per_s: float | None
    output_tokens_per_s: float | None
    output_tokens: int | None
    goodput_per_s: float | None
    goodput_share: float | None


class Load(Output):
    """A load in a list; it is a run, and has the run's page, report, live feed and id."""

    id: UUID
    name: str
    state: RunState
    reason: str | None
    url: str
    model: str
    in_words: str
    """How requests are sent."""
    total: int | None
    done: int
    failed: int
    waits_for: WaitsFor | None
    created_by: str
    created_at: datetime
    finished_at: datetime | None


class Workload(Output):
    """What was asked for, by the names of `LoadCreate`; of a trace its number of requests."""

    scenario: str
    preset: Preset | None
    rate_per_s: float | None
    arrivals: str | None
    cv: float | None
    burst_size: int | None
    to_rate_per_s: float | None
    traced: int
    """Requests of the trace; 0 without one."""
    concurrency: int
    requests: int | None
    """None of conversations, and of a load that is bounded by time."""
    duration_s: float | None
    conversations: int | None
    turns: int | None
    think_s: float | None
    prompt: str | None
    prompt_tokens: int | None
    """None where each prompt of a trace has its own length."""
    output_tokens: int
    images: int
    image_size: str | None
    image_reuse: float
    warmup: int
    baseline: int
    timeout_s: float
    seed: int
    extra_body: dict[str, JsonValue]
    api_key_secret: str | None


class LoadDetail(Load):
    """A load with its progress while it runs, and its result after that."""

    workload: Workload
    slo_ms: dict[str, float]
    progress: Progress | None
    result: LoadMeasured | None
    """None until its report exists."""
    warnings: list[str]
