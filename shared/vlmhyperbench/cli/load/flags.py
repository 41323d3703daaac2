"""The flags of `load`, in the groups of its help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from vlmhyperbench.cli import groups
from vlmhyperbench.domain.arrivals import MAX_RATE_PER_S
from vlmhyperbench.domain.presets import Preset
from vlmhyperbench.load.workload import Scenario

PROMPT: Final = "Describe what you see, or tell a short story."
MAX_PROBES: Final = 10

Positive = Annotated[int, Parameter(validator=Number(gte=1, lte=10_000_000))]
NotNegative = Annotated[int, Parameter(validator=Number(gte=0, lte=1_000_000))]
Streams = Annotated[int, Parameter(validator=Number(gte=1, lte=4096))]
Connections = Annotated[int, Parameter(validator=Number(gte=1, lte=65_536))]
Processes = Annotated[int, Parameter(validator=Number(gte=1, lte=64))]
Turns = Annotated[int, Parameter(validator=Number(gte=1, lte=1000))]
ImageCount = Annotated[int, Parameter(validator=Number(gte=0, lte=1000))]
Rate = Annotated[float, Parameter(validator=Number(gte=1e-6, lte=MAX_RATE_PER_S))]
Spread = Annotated[float, Parameter(validator=Number(gte=0.01, lte=100))]
Speed = Annotated[float, Parameter(validator=Number(gte=1e-3, lte=1e3))]
Seconds = Annotated[float, Parameter(validator=Number(gt=0, lte=86_400))]
Pause = Annotated[float, Parameter(validator=Number(gte=0, lte=86_400))]
Probes = Annotated[int, Parameter(validator=Number(gte=1, lte=100))]
Seed = Annotated[int, Parameter(validator=Number(gte=0, lte=2**62))]
Share = Annotated[float, Parameter(validator=Number(gte=0, lte=1))]


@Parameter(name="*", group=groups.TARGET)
@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFlags:
    """The server that is measured, and how it is reached."""

    model: str
    """Name of the model at the server: the field model of every request."""
    api_key_env: str | None = None
    """Name of the environment variable that contains the server's API key."""
    unix_socket: Path | None = None
    """Unix socket at which the server listens. The URL is still needed for its path and host name."""
    insecure: bool = False
    """Do not verify the server's TLS certificate."""


@Parameter(name="*", group=groups.WORKLOAD)
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFlags:
    """The content of the requests."""

    prompt: str = PROMPT
    """Text of every request."""
    prompt_tokens: NotNegative = 0
    """Number of random words in place of the prompt, about one token each and different in every request; 0 keeps the
    prompt."""
    image: tuple[Path, ...] = ()
    """Image file that every request contains; may be given several times."""
    images: ImageCount = 0
    """Number of synthetic images in every request, each unique."""
    image_size: str | None = None
    """Width and height of the synthetic images in pixels, 512x512 by default. From a list such as 512x512,1024x768,
    each image gets a random size."""
    image_reuse: Share = 0.0
    """Share of synthetic images, from 0 to 1, that repeat an image of an earlier request."""
    output_tokens: Positive = 128
    """Maximum length of an answer in tokens."""
    ignore_eos: bool = False
    """Ask the server for exactly --output-tokens tokens (supported by vLLM, SGLang and llama.cpp)."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Name of the request's field that limits the length of an answer."""
    extra_body: str | None = None
    """Further fields of every request as a JSON object, for example '{"top_k": 1, "min_tokens": 64}'."""


@Parameter(name="*", group=groups.SCHEDULE)
@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFlags:
    """When requests are sent."""

    scenario: Scenario | None = None
    """How requests are sent. offline: --concurrency requests in flight. single_stream: one request at a time.
    multi_stream: one request at a time in each of --concurrency streams. server: at --rate, whether or not earlier
    requests are answered. interactive: conversations, --concurrency at a time or at --rate. Default: server with
    --preset vlm, --search-rate or --sweep rate=…, otherwise offline."""
    preset: Preset | None = None
    """Duration, number of requests and limits by rule. quick: 10 s. official: MLPerf's rules (at least 600 s, minimum
    numbers of requests, certified percentiles). vlm: official with images and a limit of 12 s on the latency."""
    concurrency: Streams | None = None
    """Number of requests in flight; 8 by default, or the number of requests if that is smaller. For server: number of
    connections that are open before the start."""
    rate: Rate | None = None
    """For server: average number of requests per second. For interactive: conversations per second. With --search-rate:
    the first rate."""
    arrivals: Literal["constant", "poisson", "gamma", "burst", "ramp"] = "poisson"
    """Distribution of the arrivals at --rate."""
    cv: Spread = 1.0
    """For --arrivals gamma: coefficient of variation of the gaps between requests."""
    burst_size: Positive = 1
    """For --arrivals burst: number of requests that are sent together."""
    to_rate: Rate | None = None
    """For --arrivals ramp: requests per second at the end; the ramp starts at --rate."""
    conversations: Positive | None = None
    """For interactive: number of conversations."""
    turns: Turns | None = None
    """For interactive: number of turns of each conversation, 4 by default."""
    think: Pause | None = None
    """For interactive: seconds between an answer and the next turn, 1 by default."""
    trace: Path | None = None
    """For server, in place of --rate: file whose requests are replayed at their times. Each line is a JSON object with
    timestamp_s and, if known, prompt_tokens and output_tokens."""
    speed: Speed = 1.0
    """Factor by which --trace is replayed faster."""


@Parameter(name="*", group=groups.LIMITS)
@dataclass(frozen=True, slots=True, kw_only=True)
class LimitFlags:
    """How many requests are sent, and for how long."""

    requests: Positive | None = None
    """Number of measured requests; 100 by default, or 4 per stream if that is more."""
    duration: Seconds | None = None
    """Seconds that the load lasts, in place of --requests. Except for server, a short pilot first estimates the number
    of requests."""
    warmup: NotNegative = 2
    """Number of warm-up requests, which are not measured."""
    baseline: NotNegative | None = None
    """For multi_stream: number of requests that are first sent one at a time, for comparison; 20 by default."""
    timeout: Seconds = 300.0
    """Seconds after which a request counts as failed."""
    max_in_flight: Connections | None = None
    """For server: maximum number of connections, 4096 by default; each needs an open file. Further requests wait for a
    free connection, and their wait is measured."""


@Parameter(name="*", group=groups.SLO)
@dataclass(frozen=True, slots=True, kw_only=True)
class SloFlags:
    """Limits on the times of requests."""

    slo: str = ""
    """Limits in ms on ttft, tpot, itl or latency, for example 'ttft_p99<500,tpot_p90<50'; without a percentile, a limit
    is on p99."""
    search_rate: bool = False
    """Find the largest rate at which the server keeps the limits of --slo with high certainty."""
    probes: Probes = MAX_PROBES
    """Maximum number of rates that --search-rate tries."""


@Parameter(name="*", group=groups.SERIES)
@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesFlags:
    """How often the load is measured."""

    repeats: Positive | None = None
    """Number of measurements, each with another seed; 1 by default. With --until-precision: the maximum, 30 by default.
    With --against: the number of pairs, 5 by default."""
    until_precision: str | None = None
    """Repeat until half of the confidence interval of a metric's mean is at most this share of the mean, for example
    2%."""
    precision_of: str | None = None
    """Metric of --until-precision: requests_per_s, output_tokens_per_s or goodput_per_s, or ttft, tpot or latency with
    _mean, _p50, _p90 or _p99. By default the headline metric of the scenario."""
    sweep: str | None = None
    """Measure at each of these values: rate=5,10,20 or concurrency=1,2,4. Each measurement starts when the server is
    idle."""
    against: str | None = None
    """Base URL of a second server. Both are measured in pairs, in random order, and the ratios of the second server's
    values to the first's are printed. It gets the same key and model, and is reached over TCP."""


@Parameter(name="*", group=groups.CLIENT)
@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFlags:
    """How the load generator runs."""

    seed: Seed = 0
    """Seed of all random choices: words, images and arrivals."""
    processes: Processes = 1
    """Number of processes that send requests; they share the streams."""


@Parameter(name="*", group=groups.OUTPUT)
@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFlags:
    """What is stored and printed of the measurement."""

    record: Path | None = None
    """New folder in which the request records are stored as Parquet files; without it they are discarded."""
    live: bool = False
    """Print speeds so far on stderr even if it is not a terminal."""
