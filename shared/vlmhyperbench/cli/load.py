"""`load`: measure any OpenAI-compatible URL, without a stack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from vlmhyperbench.analysis.load_metrics import Until, check_metric
from vlmhyperbench.cli.load_flags import (
    check_fit,
    check_socket,
    complete_url,
    parse_extra_body,
    parse_precision,
    parse_slo,
    parse_sweep,
    read_image,
    read_key,
)
from vlmhyperbench.cli.load_run import Series, run_load
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.domain.arrivals import MOST_RATE_PER_S, Arrivals
from vlmhyperbench.load.bodies import Asked, Images
from vlmhyperbench.load.images import parse_sizes
from vlmhyperbench.load.measure import Target
from vlmhyperbench.load.presets import Preset, with_preset
from vlmhyperbench.load.series import HEADLINE
from vlmhyperbench.load.trace import read_trace
from vlmhyperbench.load.workload import Scenario, Workload
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.load import Endpoint

PROMPT = "Describe what you see, or tell a short story."
REQUESTS, STREAMS = 100, 8
IMAGE_SIZE = "512x512"
ROUNDS = 4
"""So many requests of each stream, where nothing says how many."""

MOST_REPEATS = 30
"""Where the precision decides."""

MOST_PROBES = 10
PAIRS = 5
BASELINE = 20
TURNS, THINK_SECONDS = 4, 1.0
_KEY = "api_key"

Positive = Annotated[int, Parameter(validator=Number(gte=1, lte=10_000_000))]
NotNegative = Annotated[int, Parameter(validator=Number(gte=0, lte=1_000_000))]
Streams = Annotated[int, Parameter(validator=Number(gte=1, lte=4096))]
Connections = Annotated[int, Parameter(validator=Number(gte=1, lte=65_536))]
Processes = Annotated[int, Parameter(validator=Number(gte=1, lte=64))]
Turns = Annotated[int, Parameter(validator=Number(gte=1, lte=1000))]
Pictures = Annotated[int, Parameter(validator=Number(gte=0, lte=1000))]
Rate = Annotated[float, Parameter(validator=Number(gte=1e-6, lte=MOST_RATE_PER_S))]
Spread = Annotated[float, Parameter(validator=Number(gte=0.01, lte=100))]
Speed = Annotated[float, Parameter(validator=Number(gte=1e-3, lte=1e3))]
Seconds = Annotated[float, Parameter(validator=Number(gt=0, lte=86_400))]
Probes = Annotated[int, Parameter(validator=Number(gte=1, lte=100))]
Seed = Annotated[int, Parameter(validator=Number(gte=0, lte=2**62))]
Share = Annotated[float, Parameter(validator=Number(gte=0, lte=1))]


def load(
    url: str,
    /,
    *,
    model: str,
    scenario: Scenario | None = None,
    preset: Preset | None = None,
    requests: Positive | None = None,
    duration: Seconds | None = None,
    concurrency: Streams | None = None,
    most_in_flight: Connections | None = None,
    rate: Rate | None = None,
    arrivals: Literal["constant", "poisson", "gamma", "burst", "ramp"] = "poisson",
    cv: Spread = 1.0,
    burst_size: Positive = 1,
    to_rate: Rate | None = None,
    conversations: Positive | None = None,
    turns: Turns | None = None,
    think: Annotated[float, Parameter(validator=Number(gte=0, lte=86_400))] | None = None,
    trace: Path | None = None,
    speed: Speed = 1.0,
    prompt: str = PROMPT,
    prompt_tokens: NotNegative = 0,
    image: Annotated[Sequence[Path], Parameter(negative=())] = (),
    images: Pictures = 0,
    image_size: str | None = None,
    image_reuse: Share = 0.0,
    output_tokens: Positive = 128,
    ignore_eos: Annotated[bool, Parameter(negative=())] = False,
    extra_body: str | None = None,
    warmup: NotNegative = 2,
    baseline: NotNegative | None = None,
    slo: str = "",
    repeats: Positive | None = None,
    until_precision: str | None = None,
    precision_of: str | None = None,
    sweep: str | None = None,
    search_rate: Annotated[bool, Parameter(negative=())] = False,
    probes: Probes = MOST_PROBES,
    against: str | None = None,
    timeout: Seconds = 300.0,
    seed: Seed = 0,
    processes: Processes = 1,
    unix_socket: Path | None = None,
    insecure: bool = False,
    api_key_env: str | None = None,
    record: Path | None = None,
    live: Annotated[bool, Parameter(negative=())] = False,
    shown: Shown = HUMAN,
) -> int:
    """Measure any OpenAI-compatible URL, without a stack.

    Without `prompt_tokens` and `images` every request is the same, so a server that caches prompts shows its cache.

    Args:
        url: Base URL (http://host:port), or the whole URL of chat completions.
        model: The model's name as the server knows it.
        scenario: offline keeps `concurrency` requests under way, single_stream one, multi_stream one on each of
            `concurrency` streams; server sends at a rate, whatever becomes of the answers; interactive holds
            conversations, `concurrency` at a time or arriving at a rate. Not given: server of the
            preset vlm, of a search and of a sweep over rates; else offline.
        preset: quick lasts 10 s; official follows MLPerf's rules (600 s, least numbers of requests, certified
            percentiles); vlm is official with images and 12 s for the whole answer.
        requests: How many requests are measured; 100 if nothing else says it, or 4 for each stream if that is more.
        duration: Seconds that it lasts, in place of the number; but for server, a pilot finds out how many that is.
        concurrency: How many are under way at a time, 8 if nothing else is said (or all, if they are fewer); of server,
            connections that are ready before the start.
        most_in_flight: Connections that server may come to, 4096 if nothing else is said; a request beyond them waits
            for one, and its wait counts. Each is an open file.
        rate: Requests a second on average, of server; conversations, of interactive; in a search, the first tried.
        arrivals: The process by which requests of server arrive.
        cv: Of gamma: standard deviation of the gaps over their mean.
        burst_size: Of burst: how many leave at once.
        to_rate: Of ramp: the rate at its end.
        conversations: How many are held, of interactive.
        turns: Of each conversation; 4 if nothing else is said.
        think: Seconds from the end of an answer to the next turn; 1 if nothing else is said.
        trace: Send at the instants of this file, JSON lines with timestamp_s, prompt_tokens and output_tokens.
        speed: How many times as fast the trace is played.
        prompt: What is asked.
        prompt_tokens: Ask with so many seeded words instead, others in every request; about one token each.
        image: Pictures that go with the prompt.
        images: So many synthetic images go with every request, no two alike.
        image_size: Their size, 512x512 if not given; of several, as 512x512,1024x768, each image has any.
        image_reuse: Share of them that was sent before.
        output_tokens: The longest answer, in tokens.
        ignore_eos: Ask that every answer is that long, whatever the model says; vLLM, SGLang and llama.cpp do that.
        extra_body: Fields that every request holds besides, as a JSON object: '{"top_k": 1, "min_tokens": 64}'.
        warmup: Requests before those that count.
        baseline: Requests of multi_stream that are sent one after the other first, to say how much its streams cost
            each other; 20 if nothing else is said.
        slo: Limits in ms, as 'ttft_p99<500,tpot_p90<50'; one without a percentile is on p99.
        repeats: Measure so many times, each with a seed of its own; with until-precision, at most (30).
        until_precision: Repeat until a metric's mean is known so well, as 2%.
        precision_of: That metric: a rate such as output_tokens_per_s, or ttft, tpot or latency with _mean, _p50, _p90
            or _p99. Not given: what the scenario is about.
        sweep: Measure at each of these, as rate=5,10,20 or concurrency=1,2,4; the server is idle before each.
        search_rate: Find the largest rate of server that keeps the SLO for certain.
        probes: How many rates a search may try.
        against: Measure this URL too, in pairs in random order, and give its ratios to the first; repeats (5) of them.
            It gets the same key and model, and is reached over TCP.
        timeout: Seconds that one request may take.
        seed: Seed of whatever is drawn.
        processes: Measuring processes that share the streams.
        unix_socket: Send to the server that listens at this path; the URL still gives the path and the Host.
        insecure: Do not check the server's certificate.
        api_key_env: Name of the environment variable with the server's key.
        record: Keep the record in this folder.
        live: Tell rates and percentiles so far while it runs where stderr is no terminal, too.
        shown: How the answer is shown.
    """
    limits_ms, target_url = parse_slo(slo), complete_url(url)
    secrets = {_KEY: f"Bearer {read_key(api_key_env)}"} if api_key_env else {}
    sizes = parse_sizes(image_size or IMAGE_SIZE)
    axis, values = parse_sweep(sweep) if sweep is not None else (None, ())
    is_by_rate = axis == "rate" or search_rate
    scenario = scenario or ("server" if is_by_rate or preset == "vlm" else "offline")
    first = rate if rate is not None or not is_by_rate else next(iter(values), 1.0)
    traced = tuple(read_trace(trace)) if trace is not None else ()
    is_counted = requests is not None or duration is not None or bool(traced) or preset is not None or search_rate
    is_talk = scenario == "interactive"
    given = conversations if is_talk else requests
    streams = concurrency or min(STREAMS, given or STREAMS, most_in_flight or STREAMS)
    most_streams = int(max(values)) if axis == "concurrency" else streams
    is_counted = is_counted or is_talk
    check_fit(
        {
            "--conversations": (conversations is not None, is_talk, "--scenario interactive"),
            "--turns": (turns is not None, is_talk, "--scenario interactive"),
            "--think": (think is not None, is_talk, "--scenario interactive"),
            "--to-rate": (to_rate is not None, arrivals == "ramp", "--arrivals ramp"),
            "--arrivals ramp": (arrivals == "ramp", to_rate is not None, "--to-rate"),
            "--burst-size": (burst_size > 1, arrivals == "burst", "--arrivals burst"),
            "--cv": (cv != 1.0, arrivals == "gamma", "--arrivals gamma"),
            "--speed": (speed != 1.0, trace is not None, "--trace"),
            "--trace": (trace is not None, rate is None, "no --rate"),
            "--image-reuse": (image_reuse > 0, images > 0, "--images"),
            "--image-size": (image_size is not None, images > 0, "--images"),
        }
    )
    workload = Workload(
        scenario=scenario,
        asked=Asked(
            model=model,
            prompt=prompt,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            media=tuple(map(read_image, image)),
            images=Images(count=images, sizes=sizes, reuse=image_reuse) if images else None,
            extra_body=parse_extra_body(extra_body, ignore_eos=ignore_eos),
        ),
        requests=requests if is_counted else max(REQUESTS, ROUNDS * most_streams),
        duration_s=duration,
        streams=streams,
        arrivals=None
        if first is None
        else Arrivals(process=arrivals, rate_per_s=first, cv=cv, burst_size=burst_size, last_rate_per_s=to_rate),
        trace=traced,
        speed=speed,
        warmup=warmup,
        timeout_s=timeout,
        seed=seed,
        processes=processes,
        conversations=conversations,
        baseline=(BASELINE if scenario == "multi_stream" else 0) if baseline is None else baseline,
        turns=(TURNS if turns is None else turns) if is_talk else 1,
        think_s=THINK_SECONDS if think is None else think,
        most_in_flight=most_in_flight,
    )
    used = None
    if preset is not None:
        workload, limits_ms, used = with_preset(workload, preset, limits_ms)
    endpoint = Endpoint(
        url=target_url,
        headers={"Authorization": _KEY} if secrets else {},
        unix_socket=None if unix_socket is None else check_socket(unix_socket),
        verify=not insecure,
    )
    return run_load(
        workload,
        Target(endpoint=endpoint, secrets=secrets, slo=limits_ms),
        Series(
            repeats=repeats or (PAIRS if against is not None else MOST_REPEATS if until_precision is not None else 1),
            against=None if against is None else replace(endpoint, url=complete_url(against), unix_socket=None),
            until=_until(until_precision, precision_of, scenario),
            axis=axis,
            values=values,
            is_search=search_rate,
            first_per_s=rate,
            most_probes=probes,
        ),
        preset=used,
        record=record,
        is_live=live,
        shown=shown,
    )


def _until(precision: str | None, metric: str | None, scenario: Scenario) -> Until | None:
    if precision is None:
        if metric is not None:
            raise InvalidInput("--precision-of needs --until-precision.", cure="Give --until-precision 2%, say.")
        return None
    until = Until(metric=metric or HEADLINE[scenario], precision=parse_precision(precision))
    check_metric(until.metric)
    return until
