"""`load`: measure any OpenAI-compatible URL, without a stack."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
import mimetypes
import os
import random
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit, urlunsplit

from cyclopts import Parameter
from cyclopts.validators import Number

from vlmhyperbench.analysis.performance import Distribution, slo_metric
from vlmhyperbench.cli import exits
from vlmhyperbench.cli.output import emit, note, say, table
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.load.plan import join_tables, make_requests, write_bodies, write_plan
from vlmhyperbench.load.process import LoadProcess
from vlmhyperbench.load.results import LoadResult, read_record, result_of
from vlmhyperbench_sdk.errors import InvalidInput, NotFound, Unavailable
from vlmhyperbench_sdk.load import (
    PLAN_VERSION,
    EndLine,
    Endpoint,
    LoadLimits,
    LoadPlan,
    PhaseKind,
    PhasePlan,
    ProgressLine,
)

PROMPT = "Describe what you see, or tell a short story."
_WORDS = [f"w{number}" for number in range(1000)]
WARMUP_PHASE, MEASURED_PHASE = 0, 1
_KEY = "api_key"

Positive = Annotated[int, Parameter(validator=Number(gte=1))]
NotNegative = Annotated[int, Parameter(validator=Number(gte=0))]
Seconds = Annotated[float, Parameter(validator=Number(gt=0, lte=86_400))]


def load(
    url: str,
    /,
    *,
    model: str,
    scenario: Literal["offline", "single_stream"] = "offline",
    requests: Positive = 100,
    concurrency: Positive = 8,
    prompt: str = PROMPT,
    prompt_tokens: NotNegative = 0,
    image: Annotated[Sequence[Path], Parameter(negative=())] = (),
    output_tokens: Positive = 128,
    warmup: NotNegative = 2,
    slo: str = "",
    timeout: Seconds = 300.0,
    seed: int = 0,
    processes: Positive = 1,
    api_key_env: str | None = None,
    record: Path | None = None,
    shown: Shown = HUMAN,
) -> int:
    """Measure any OpenAI-compatible URL, without a stack.

    Without `prompt_tokens` every request is the same, so a server that caches prompts shows its cache.

    Args:
        url: Base URL (http://host:port), or the whole URL of chat completions.
        model: The model's name as the server knows it.
        scenario: offline keeps `concurrency` requests under way, single_stream one.
        requests: How many requests are measured.
        concurrency: How many are under way at a time.
        prompt: What is asked.
        prompt_tokens: Ask with so many seeded words instead, others in every request; about one token each.
        image: Pictures that go with the prompt.
        output_tokens: The longest answer, in tokens.
        warmup: Requests before those that count.
        slo: Limits in ms for goodput, as 'ttft<500,tpot<50'.
        timeout: Seconds that one request may take.
        seed: Seed of whatever is drawn.
        processes: Measuring processes that share the streams.
        api_key_env: Name of the environment variable with the server's key.
        record: Keep the record in this folder.
        shown: How the answer is shown.
    """
    limits_ms = parse_slo(slo)
    secrets = {_KEY: f"Bearer {_read_key(api_key_env)}"} if api_key_env else {}
    count = requests + warmup
    prompts = draw_prompts(count, words=prompt_tokens, seed=seed) if prompt_tokens else [prompt]
    bodies = [_make_body(model, one, image, output_tokens) for one in prompts]
    streams = 1 if scenario == "single_stream" else min(concurrency, requests)
    plan = LoadPlan(
        version=PLAN_VERSION,
        phases=_phases(scenario, requests, warmup, streams),
        endpoint=Endpoint(url=complete_url(url), headers={"Authorization": _KEY} if secrets else {}),
        limits=LoadLimits(request_timeout_s=timeout),
        seed=seed,
        processes=processes,
    )
    with tempfile.TemporaryDirectory(prefix="vlmhyperbench-load-") as scratch:
        plan_folder, record_folder = Path(scratch) / "plan", record or Path(scratch) / "record"
        if record is not None and any(record.glob("*.parquet")):
            raise InvalidInput(f"{record} holds the record of another run.", cure="Give a new folder.")
        _write(plan_folder, plan, bodies)
        end = asyncio.run(_drive(plan_folder, record_folder, secrets, shown))
        if end.outcome != "complete":
            raise _failure(end)
        result = result_of(
            read_record(record_folder), end, measured_phase=MEASURED_PHASE, scheduled=requests, slo=limits_ms
        )
    if shown.json:
        emit("load", result)
    else:
        _print(result)
    return exits.OK if result.valid else exits.RUN_FAILED


def complete_url(url: str) -> str:
    """Make the URL of chat completions of a base URL with or without `/v1`; a longer path is taken as it is.

    Raises:
        InvalidInput: it is no http or https URL.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidInput(f"{url!r} is no URL: {error}.") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(f"{url!r} is no URL.", cure="Write http://host:port or https://host.")
    path = parts.path.rstrip("/")
    match path:
        case "":
            path = "/v1/chat/completions"
        case _ if path.endswith("/v1"):
            path += "/chat/completions"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def parse_slo(text: str) -> dict[str, float]:
    """Read limits like `ttft_p99<500ms,tpot<50`.

    Raises:
        InvalidInput: a limit has another form, or bounds what is not measured.
    """
    limits: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("<")
        digits = value.strip().removesuffix("ms").strip()
        if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", digits):
            raise InvalidInput(f"{part!r} is no limit.", cure="Write name<milliseconds: ttft_p99<500.")
        slo_metric(name.strip())
        limits[name.strip()] = float(digits)
    return limits


def _read_key(name: str) -> str:
    key = os.environ.get(name, "")
    if not key:
        raise InvalidInput(f"The environment variable {name} is not set.", cure="Set it to the server's key.")
    return key


def _make_body(model: str, prompt: str, images: Sequence[Path], output_tokens: int) -> bytes:
    content: list[dict[str, object]] = []
    for path in images:
        try:
            data = base64.b64encode(path.read_bytes()).decode("ascii")
        except OSError as error:
            raise NotFound(f"The image {path} cannot be read: {error.strerror}.") from error
        media_type = mimetypes.guess_type(path.name)[0] or "image/png"
        content.append({"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}})
    content.append({"type": "text", "text": prompt})
    request = {
        "model": model,
        "messages": [{"role": "user", "content": content if images else prompt}],
        "max_tokens": output_tokens,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return json.dumps(request).encode()


def _phases(scenario: PhaseKind, requests: int, warmup: int, streams: int) -> tuple[PhasePlan, ...]:
    phases = [PhasePlan(no=MEASURED_PHASE, kind=scenario, count=requests, params={"in_flight": streams})]
    if warmup:
        phases.insert(0, PhasePlan(no=WARMUP_PHASE, kind="warmup", count=warmup, params={"in_flight": streams}))
    return tuple(phases)


def draw_prompts(count: int, *, words: int, seed: int) -> list[str]:
    """Draw `count` prompts of `words` seeded words, no two alike where that many exist."""
    drawn = random.Random(seed)  # noqa: S311 - drawn, not secret
    return [" ".join(drawn.choices(_WORDS, k=words)) for _ in range(count)]


def _write(folder: Path, plan: LoadPlan, bodies: Sequence[bytes]) -> None:
    """Write the plan; its phases take the bodies one after the other, and begin anew where they are fewer."""
    written = write_bodies(folder, bodies)
    tables, used = [], 0
    for phase in plan.phases:
        numbers = range(phase.count or 0)
        planned = [
            dataclasses.replace(written[(used + number) % len(written)], ordinal=number, sample=number)
            for number in numbers
        ]
        tables.append(make_requests(phase.no, planned))
        used += len(numbers)
    write_plan(folder, plan=plan, requests=join_tables(tables))


async def _drive(plan_folder: Path, record_folder: Path, secrets: dict[str, str], shown: Shown) -> EndLine:
    async with await LoadProcess.start(plan_folder, record_folder) as process:
        await process.ready(secrets)
        async for line in process.lines():
            if isinstance(line, ProgressLine) and line.phase == MEASURED_PHASE:
                note(f"{line.done} done, {line.failed} failed, {line.in_flight} under way", shown)
        return await process.wait()


def _failure(end: EndLine) -> Unavailable:
    reason = end.error or "it was cancelled"
    cure = "Check that the server runs and the URL is right." if reason.startswith("connect_failed") else ""
    return Unavailable(f"Nothing was measured: {reason}", cure=cure, code=reason.partition(":")[0])


def _print(result: LoadResult) -> None:
    counts = result.requests
    say(f"{counts['ok']} of {counts['scheduled']} requests succeeded in {result.duration_s:.2f} s.")
    for code, count in result.errors.items():
        say(f"  {count} x {code}")
    rows = [
        (name, *(f"{value:.2f}" if value is not None else None for value in (d.mean, d.p50, d.p90, d.p99, d.max)))
        for name, d in result.metrics.items()
        if isinstance(d, Distribution)
    ]
    table(["", "mean", "p50", "p90", "p99", "max"], rows, right=["mean", "p50", "p90", "p99", "max"])
    for name in ("requests_per_s", "output_tokens_per_s", "goodput_per_s"):
        rate = result.metrics[name]
        if isinstance(rate, float):
            say(f"{name}: {rate:.2f}")
    for gate in result.gates:
        if not gate.ok:
            say(f"INVALID: {gate.name} is {gate.value}, the limit is {gate.limit:g}.")
