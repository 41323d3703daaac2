"""Bodies of loads: a measurement of any endpoint without a data set of its own, as `vlmhyperbench load` makes it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, JsonValue, model_validator

from vlmhyperbench.domain.base import Refused
from vlmhyperbench.domain.scenarios import Slo
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.registry.values import SecretName
from vlmhyperbench.wire.base import Input, Label, Output
from vlmhyperbench.wire.live import Progress
from vlmhyperbench.wire.runs import WaitsFor
from vlmhyperbench.wire.summaries import SpeedGate, Spread

LOAD_TASK = "load"
"""The registered task of loads."""
MAX_PROMPTS = 20_000
"""Prompts that are made; a longer load asks them again."""

LoadScenario = Literal["server", "multi_stream", "single_stream"]
Process = Literal["constant", "poisson"]


class LoadCreate(Input):
    """A load: requests at a rate (`server`), or a fixed number in flight (`multi_stream`, `single_stream`)."""

    url: Annotated[str, Field(min_length=1, max_length=2000, examples=["http://127.0.0.1:8000/v1"])]
    """Base URL of an OpenAI-compatible API."""
    model: Annotated[str, Field(min_length=1, max_length=200)]
    name: Label | None = None
    scenario: LoadScenario = "server"
    rate_per_s: Annotated[float, Field(ge=1e-3, le=100_000)] | None = None
    """Requests per second; only for `server`."""
    arrivals: Process = "poisson"
    concurrency: Annotated[int, Field(ge=1, le=4096)] = 1
    """Requests in flight; for `server`, connections that are opened beforehand."""
    requests: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    duration_s: Annotated[float, Field(gt=0, le=86_400)] | None = None
    """Instead of `requests`; only for `server`."""
    prompt_tokens: Annotated[int, Field(ge=1, le=200_000)] = 128
    """Random words of each prompt."""
    output_tokens: Annotated[int, Field(ge=1, le=200_000)] = 128
    images: Annotated[int, Field(ge=0, le=16)] = 0
    image_size: Annotated[str, Field(pattern=r"^[0-9]{1,4}x[0-9]{1,4}$")] = "512x512"
    warmup: Annotated[int, Field(ge=0, le=10_000)] = 2
    seed: Annotated[int, Field(ge=0, le=2**53)] = 0
    slo: Slo = Slo()
    api_key_secret: SecretName | None = None
    """Name of the secret with the key, which workers have."""
    extra_body: dict[str, JsonValue] = Field(default_factory=dict)
    """Further fields of every request."""

    @model_validator(mode="after")
    def _is_one_load(self) -> LoadCreate:
        if (self.rate_per_s is not None) != (self.scenario == "server"):
            cure = "Add rate_per_s." if self.scenario == "server" else "Leave it out, or choose the scenario server."
            raise Refused("requests at a rate are the scenario server, and only that one has a rate", cure=cure)
        if self.duration_s is not None and self.scenario != "server":
            raise Refused("only the scenario server has duration_s", cure="Give requests in its place.")
        if (self.requests is None) == (self.duration_s is None):
            raise Refused("a load has either requests or duration_s", cure="Give exactly one of them.")
        return self

    @property
    def prompts(self) -> int:
        """Number of different prompts."""
        wanted = self.requests or round((self.rate_per_s or 0) * (self.duration_s or 0))
        return min(MAX_PROMPTS, max(1, wanted) + self.warmup)


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
    """What was asked for, by the names of `LoadCreate`."""

    scenario: str
    rate_per_s: float | None
    arrivals: str | None
    concurrency: int
    requests: int | None
    duration_s: float | None
    prompt_tokens: int | None
    output_tokens: int
    images: int
    image_size: str | None
    api_key_secret: str | None


class LoadDetail(Load):
    """A load with its progress while it runs, and its result after that."""

    workload: Workload
    slo_ms: dict[str, float]
    progress: Progress | None
    result: LoadMeasured | None
    """None until its report exists."""
    warnings: list[str]
