"""The flags of `load`, by the groups in which its help shows them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from vlmhyperbench.cli import groups
from vlmhyperbench.domain.arrivals import MOST_RATE_PER_S
from vlmhyperbench.load.presets import Preset
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
Rate = Annotated[float, Parameter(validator=Number(gte=1e-6, lte=MOST_RATE_PER_S))]
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
    """Which server is measured, and how it is reached."""

    model: str
    """The model's name as the server knows it."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the server's key."""
    unix_socket: Path | None = None
    """Send to the server that listens at this path; the URL still gives the path and the Host."""
    insecure: bool = False
    """Do not verify the server's TLS certificate."""


@Parameter(name="*", group=groups.WORKLOAD)
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFlags:
    """What the requests hold."""

    prompt: str = PROMPT
    """Text of every request."""
    prompt_tokens: NotNegative = 0
    """Number of random words that replace the prompt, about one token each; every request has other words."""
    image: tuple[Path, ...] = ()
    """Image file that is sent with every prompt; may be given several times."""
    images: ImageCount = 0
    """Number of synthetic images in every request, each unique."""
    image_size: str | None = None
    """Size of the synthetic images, 512x512 by default; of several, as 512x512,1024x768, each has a random one."""
    image_reuse: Share = 0.0
    """Share of synthetic images that were already sent with an earlier request."""
    output_tokens: Positive = 128
    """Maximum length of an answer, in tokens."""
    ignore_eos: bool = False
    """Ask the server to generate exactly that many tokens (supported by vLLM, SGLang and llama.cpp)."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Name of the field that bounds the length of an answer."""
    extra_body: str | None = None
    """Further fields of every request, as a JSON object: '{"top_k": 1, "min_tokens": 64}'."""


@Parameter(name="*", group=groups.SCHEDULE)
@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFlags:
    """When requests are sent."""

    scenario: Scenario | None = None
    """offline keeps `--concurrency` requests in flight; single_stream keeps one; multi_stream keeps one in each of
    `--concurrency` streams; server sends at a rate, whether or not answers arrive; interactive holds conversations,
    `--concurrency` at a time or arriving at a rate. Default: server for the preset vlm, a search or a sweep over rates,
    else offline."""
    preset: Preset | None = None
    """quick lasts 10 s; official follows MLPerf's rules (600 s, minimum numbers of requests, certified percentiles);
    vlm is official with images and a limit of 12 s on the whole answer."""
    concurrency: Streams | None = None
    """Number of requests in flight, 8 by default (or the number of requests, if that is smaller); for server, the
    number of connections that are open before the start."""
    rate: Rate | None = None
    """Average requests per second of server, or conversations per second of interactive; the first rate of a search."""
    arrivals: Literal["constant", "poisson", "gamma", "burst", "ramp"] = "poisson"
    """Arrival process of server."""
    cv: Spread = 1.0
    """Coefficient of variation of the gaps between arrivals, for gamma."""
    burst_size: Positive = 1
    """Number of requests that are sent together, for burst."""
    to_rate: Rate | None = None
    """Rate at the end, for ramp."""
    conversations: Positive | None = None
    """Number of conversations, for interactive."""
    turns: Turns | None = None
    """Turns of each conversation, 4 by default, for interactive."""
    think: Pause | None = None
    """Seconds between an answer and the next turn, 1 by default, for interactive."""
    trace: Path | None = None
    """Replay the instants of this file: JSON lines with timestamp_s, prompt_tokens and output_tokens."""
    speed: Speed = 1.0
    """Factor by which the trace is replayed faster."""


@Parameter(name="*", group=groups.LIMITS)
@dataclass(frozen=True, slots=True, kw_only=True)
class LimitFlags:
    """How much is sent, and how long that may take."""

    requests: Positive | None = None
    """Number of measured requests; 100 by default, or 4 for each stream if that is more."""
    duration: Seconds | None = None
    """Seconds that the load lasts, in place of a number of requests; a pilot estimates their number, except for
    server."""
    warmup: NotNegative = 2
    """Number of warm-up requests, which are not measured."""
    baseline: NotNegative | None = None
    """Number of requests that multi_stream first sends one at a time, to compare its streams with; 20 by default."""
    timeout: Seconds = 300.0
    """Maximum seconds of one request."""
    max_in_flight: Connections | None = None
    """Maximum number of connections of server, 4096 by default, each an open file. Further requests wait for one, and
    their wait is measured."""


@Parameter(name="*", group=groups.SLO)
@dataclass(frozen=True, slots=True, kw_only=True)
class SloFlags:
    """Which limits the times must keep."""

    slo: str = ""
    """Limits in ms, as 'ttft_p99<500,tpot_p90<50'; a limit without a percentile is on p99."""
    search_rate: bool = False
    """Find the largest rate of server that certainly keeps the SLO."""
    probes: Probes = MAX_PROBES
    """Maximum number of rates that a search tries."""


@Parameter(name="*", group=groups.SERIES)
@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesFlags:
    """How often the load is measured."""

    repeats: Positive | None = None
    """Number of measurements, each with its own seed; with --until-precision the maximum (30 by default); with
    --against the number of pairs (5 by default)."""
    until_precision: str | None = None
    """Repeat until half the confidence interval of a metric's mean is within this share of the mean, for example 2%."""
    precision_of: str | None = None
    """The metric of --until-precision: a rate such as output_tokens_per_s, or ttft, tpot or latency with _mean, _p50,
    _p90 or _p99. Default: the headline metric of the scenario."""
    sweep: str | None = None
    """Measure at each of these values, as rate=5,10,20 or concurrency=1,2,4; the server is idle before each."""
    against: str | None = None
    """Base URL of a second server: measure both in pairs, in random order, and report its ratios to the first. It gets
    the same key and model, and is reached over TCP."""


@Parameter(name="*", group=groups.CLIENT)
@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFlags:
    """How the load generator itself runs."""

    seed: Seed = 0
    """Seed of everything that is drawn at random."""
    processes: Processes = 1
    """Number of measuring processes that share the streams."""


@Parameter(name="*", group=groups.OUTPUT)
@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFlags:
    """What is kept and shown of the measurement."""

    record: Path | None = None
    """Folder in which the request records are kept."""
    live: bool = False
    """Print rates and percentiles so far on stderr even where it is no terminal."""
