"""Make a load out of its description: the bodies, the phases and the schedule, complete before any clock starts."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from vlmhyperbench.domain.arrivals import Arrivals, Instants, arrivals_within, draw_arrivals, trace_instants
from vlmhyperbench.load.images import noise_png
from vlmhyperbench.load.plan import join_tables, make_requests, write_bodies, write_plan
from vlmhyperbench.load.results import Grouping, OpenLoop
from vlmhyperbench.load.trace import TracedRequest
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.load import PLAN_VERSION, Endpoint, LoadLimits, LoadPlan, PhasePlan

Scenario = Literal["offline", "single_stream", "multi_stream", "server"]

WARMUP_PHASE, MEASURED_PHASE = 0, 1
_WORDS = [f"w{number}" for number in range(1000)]
_MARK = "@@the prompt@@"


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Synthetic images of a request."""

    count: int
    sizes: tuple[tuple[int, int], ...]
    """Width and height; each new image has one of them, drawn."""
    reuse: float = 0.0
    """Share of images that were sent before: 0 defeats caches of prefixes and encodings, 1 shows them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What requests ask."""

    model: str
    prompt: str
    prompt_tokens: int = 0
    """So many seeded words in place of `prompt`, others in every request; 0: none."""
    output_tokens: int = 128
    media: tuple[str, ...] = ()
    """Data URLs of pictures that go with every request."""
    images: Images | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A load as a user describes it."""

    scenario: Scenario
    asked: Asked
    requests: int | None
    """How many are measured; None: as many as `duration_s` holds."""
    duration_s: float | None
    streams: int
    """Requests under way at a time; of `server`, connections that are ready before the clock starts."""
    arrivals: Arrivals | None
    """Of `server`, unless a trace is given."""
    trace: tuple[TracedRequest, ...]
    speed: float
    warmup: int
    timeout_s: float
    seed: int
    processes: int
    is_at_least: bool = False
    """The measurement lasts `duration_s` or longer, and has `least_requests` or more."""
    least_requests: int = 1
    samples_per_query: int = 0
    """Of multi_stream: the k-th requests of so many streams are query k; 0: there are no queries."""

    @property
    def is_open_loop(self) -> bool:
        """Whether a schedule says when requests leave."""
        return self.scenario == "server"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLoad:
    """What was planned."""

    requests: int
    open_loop: OpenLoop | None
    grouping: Grouping


def check_load(workload: Workload) -> None:
    """See that a load can be planned, without planning it.

    Raises:
        InvalidInput: the description contradicts itself or asks for too much.
    """
    if not workload.trace and workload.requests is not None and workload.duration_s is not None:
        raise InvalidInput(
            "--requests and --duration exclude each other: one says how many, the other how long.",
            cure="Leave one of them out.",
        )
    instants = _instants(workload)
    if (instants is not None and instants.size == 0) or (workload.requests == 0):
        raise InvalidInput("There is nothing to send.", cure="Give --requests, or a longer --duration.")


def write_load(folder: Path, workload: Workload, endpoint: Endpoint) -> WrittenLoad:
    """Write the plan's folder.

    Raises:
        InvalidInput: the description contradicts itself or asks for too much.
        OSError: the disk is full.
    """
    instants = _instants(workload)
    count = workload.requests or 0 if instants is None else int(instants.size)
    if count == 0:
        raise InvalidInput("There is nothing to send.", cure="Give --requests, or a longer --duration.")
    streams = 1 if workload.scenario == "single_stream" else min(workload.streams, count)
    measured = PhasePlan(
        no=MEASURED_PHASE,
        kind=workload.scenario,
        count=count,
        params={"in_flight": streams} if instants is None else {"in_flight": streams, "arrivals": _process(workload)},
    )
    phases = [measured]
    if workload.warmup:
        warmup = min(streams, workload.warmup)
        phases.insert(0, PhasePlan(no=WARMUP_PHASE, kind="warmup", count=workload.warmup, params={"in_flight": warmup}))
    pixels: list[int] = []
    written = write_bodies(folder, _bodies(workload, workload.warmup + count, pixels))
    tables, used = [], 0
    for phase in phases:
        length = phase.count or 0
        table = make_requests(phase.no, [written[(used + number) % len(written)] for number in range(length)])
        table["ordinal"] = table["sample"] = np.arange(length)
        if phase.kind == "multi_stream":
            table["stream"] = np.arange(length) % streams
        tables.append(table)
        used += length
    plan = LoadPlan(
        version=PLAN_VERSION,
        phases=tuple(phases),
        endpoint=endpoint,
        limits=LoadLimits(request_timeout_s=workload.timeout_s),
        seed=workload.seed,
        processes=workload.processes,
    )
    schedules = {} if instants is None else {MEASURED_PHASE: instants}
    write_plan(folder, plan=plan, requests=join_tables(tables), schedules=schedules)
    open_loop = None
    if instants is not None:
        cv = workload.arrivals.cv if workload.arrivals is not None else 1.0
        open_loop = OpenLoop(process=_process(workload), scheduled_ns=instants, cv=cv)
    grouping = Grouping(
        streams=streams if instants is None else 1,
        is_by_stream=workload.scenario == "multi_stream",
        samples_per_query=workload.samples_per_query,
        pixels=pixels[workload.warmup :] or None,
    )
    return WrittenLoad(requests=count, open_loop=open_loop, grouping=grouping)


def _process(workload: Workload) -> Literal["constant", "poisson", "gamma", "burst", "ramp", "trace"]:
    return "trace" if workload.trace or workload.arrivals is None else workload.arrivals.process


def _instants(workload: Workload) -> Instants | None:
    """Draw or read when the requests of an open loop leave; None of a closed loop."""
    if not workload.is_open_loop:
        if workload.arrivals is not None or workload.trace:
            raise InvalidInput(
                f"{workload.scenario} sends when the one before has ended: it has no rate or trace.",
                cure="Take --scenario server, or leave --rate and --trace out.",
            )
        return None
    if workload.trace:
        instants = trace_instants([one.timestamp_s for one in workload.trace], speed=workload.speed)
        if workload.duration_s is not None:
            instants = instants[instants < workload.duration_s * 1e9]
        return instants[: workload.requests]
    if workload.arrivals is None:
        raise InvalidInput("server needs a rate.", cure="Give --rate, or --trace.")
    if workload.duration_s is not None:
        within = arrivals_within(workload.arrivals, duration_s=workload.duration_s, seed=workload.seed)
        if not workload.is_at_least:
            return within
        # The first arrival after the duration is sent too: then the last send is no earlier than that.
        count = max(int(within.size) + 1, workload.least_requests)
        return draw_arrivals(workload.arrivals, count=count, seed=workload.seed)
    return draw_arrivals(workload.arrivals, count=workload.requests or 0, seed=workload.seed)


def _bodies(workload: Workload, count: int, pixels: list[int]) -> Iterator[bytes]:
    """Make the bodies, one for each request, or one for all where all ask the same.

    The pixels of a body's synthetic images are added to `pixels`, where there are any.
    """
    asked, traced = workload.asked, workload.trace
    if not asked.prompt_tokens and asked.images is None and not traced:
        yield _body(asked, asked.prompt, asked.media, asked.output_tokens)
        return
    words = random.Random(workload.seed)  # noqa: S311 - drawn, not secret
    if asked.images is None and not traced:
        # Words need no escapes, so what all bodies share is written once.
        before, _, after = _body(asked, _MARK, asked.media, asked.output_tokens).partition(_MARK.encode())
        for _ in range(count):
            yield before + " ".join(words.choices(_WORDS, k=asked.prompt_tokens)).encode() + after
        return
    pictures = _pictures(asked.images, workload.seed)
    for number in range(count):
        # Warm-up requests come first and are as long as the trace's first ones.
        one = traced[(number - workload.warmup) % len(traced)] if traced else TracedRequest(timestamp_s=0.0)
        length = one.prompt_tokens or asked.prompt_tokens
        prompt = " ".join(words.choices(_WORDS, k=length)) if length else asked.prompt
        shown = [next(pictures) for _ in range(asked.images.count if asked.images else 0)]
        if shown:
            pixels.append(sum(size for _, size in shown))
        media = (*asked.media, *(url for url, _ in shown))
        yield _body(asked, prompt, media, one.output_tokens or asked.output_tokens)


def _pictures(images: Images | None, seed: int) -> Iterator[tuple[str, int]]:
    """Yield data URLs and their pixels without end; of those to be reused, any that was sent before."""
    if images is None:
        return
    drawn = random.Random(seed)  # noqa: S311 - drawn, not secret
    sizes = random.Random(seed ^ 0x517E)  # noqa: S311 - drawn, not secret
    known: list[tuple[int, int, int]] = []
    while True:
        if known and drawn.random() < images.reuse:
            chosen, width, height = drawn.choice(known)
        else:
            chosen, (width, height) = seed * 1_000_003 + len(known), sizes.choice(images.sizes)
            known.append((chosen, width, height))
        yield data_url(noise_png(width, height, seed=chosen), "image/png"), width * height


def data_url(data: bytes, media_type: str) -> str:
    """Write bytes as a URL that holds them."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"


def _body(asked: Asked, prompt: str, media: Sequence[str], output_tokens: int) -> bytes:
    parts: list[dict[str, object]] = [{"type": "image_url", "image_url": {"url": url}} for url in media]
    parts.append({"type": "text", "text": prompt})
    request = {
        "model": asked.model,
        "messages": [{"role": "user", "content": parts if media else prompt}],
        "max_tokens": output_tokens,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return json.dumps(request).encode()
