"""`load`: measure any OpenAI-compatible URL, without a stack."""

from __future__ import annotations

import asyncio
import mimetypes
import os
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit, urlunsplit

from cyclopts import Parameter
from cyclopts.validators import Number

from vlmhyperbench.analysis.performance import slo_percent
from vlmhyperbench.cli import exits
from vlmhyperbench.cli.load_text import print_result
from vlmhyperbench.cli.output import emit, note
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.domain.arrivals import Arrivals
from vlmhyperbench.load.images import parse_sizes
from vlmhyperbench.load.process import LoadProcess
from vlmhyperbench.load.results import read_record, result_of
from vlmhyperbench.load.trace import read_trace
from vlmhyperbench.load.workload import (
    MEASURED_PHASE,
    Asked,
    Images,
    Scenario,
    Workload,
    WrittenLoad,
    data_url,
    write_load,
)
from vlmhyperbench_sdk.errors import InvalidInput, NotFound, Unavailable
from vlmhyperbench_sdk.load import EndLine, Endpoint, ProgressLine

PROMPT = "Describe what you see, or tell a short story."
REQUESTS = 100
_KEY = "api_key"

Positive = Annotated[int, Parameter(validator=Number(gte=1))]
NotNegative = Annotated[int, Parameter(validator=Number(gte=0))]
Seconds = Annotated[float, Parameter(validator=Number(gt=0, lte=86_400))]
Share = Annotated[float, Parameter(validator=Number(gte=0, lte=1))]


def load(
    url: str,
    /,
    *,
    model: str,
    scenario: Scenario = "offline",
    requests: Positive | None = None,
    duration: Seconds | None = None,
    concurrency: Positive = 8,
    rate: float | None = None,
    arrivals: Literal["constant", "poisson", "gamma", "burst", "ramp"] = "poisson",
    cv: float = 1.0,
    burst_size: Positive = 1,
    to_rate: float | None = None,
    trace: Path | None = None,
    speed: float = 1.0,
    prompt: str = PROMPT,
    prompt_tokens: NotNegative = 0,
    image: Annotated[Sequence[Path], Parameter(negative=())] = (),
    images: NotNegative = 0,
    image_size: str = "512x512",
    image_reuse: Share = 0.0,
    output_tokens: Positive = 128,
    warmup: NotNegative = 2,
    slo: str = "",
    timeout: Seconds = 300.0,
    seed: int = 0,
    processes: Positive = 1,
    insecure: bool = False,
    api_key_env: str | None = None,
    record: Path | None = None,
    shown: Shown = HUMAN,
) -> int:
    """Measure any OpenAI-compatible URL, without a stack.

    Without `prompt_tokens` and `images` every request is the same, so a server that caches prompts shows its cache.

    Args:
        url: Base URL (http://host:port), or the whole URL of chat completions.
        model: The model's name as the server knows it.
        scenario: offline keeps `concurrency` requests under way, single_stream one, multi_stream one on each of
            `concurrency` streams; server sends at a rate, whatever becomes of the answers.
        requests: How many requests are measured; 100 if nothing else says it.
        duration: Seconds in which the requests of server are sent, in place of their number.
        concurrency: How many are under way at a time; of server, connections that are ready before the start.
        rate: Requests a second on average, of server.
        arrivals: The process by which requests of server arrive.
        cv: Of gamma: standard deviation of the gaps over their mean.
        burst_size: Of burst: how many leave at once.
        to_rate: Of ramp: the rate at its end.
        trace: Send at the instants of this file, JSON lines with timestamp_s, prompt_tokens and output_tokens.
        speed: How many times as fast the trace is played.
        prompt: What is asked.
        prompt_tokens: Ask with so many seeded words instead, others in every request; about one token each.
        image: Pictures that go with the prompt.
        images: So many synthetic images go with every request, no two alike.
        image_size: Their size; of several, as 512x512,1024x768, each image has any.
        image_reuse: Share of them that was sent before.
        output_tokens: The longest answer, in tokens.
        warmup: Requests before those that count.
        slo: Limits in ms for goodput, as 'ttft<500,tpot<50'.
        timeout: Seconds that one request may take.
        seed: Seed of whatever is drawn.
        processes: Measuring processes that share the streams.
        insecure: Do not check the server's certificate.
        api_key_env: Name of the environment variable with the server's key.
        record: Keep the record in this folder.
        shown: How the answer is shown.
    """
    limits_ms = parse_slo(slo)
    secrets = {_KEY: f"Bearer {_read_key(api_key_env)}"} if api_key_env else {}
    sizes = parse_sizes(image_size)
    traced = tuple(read_trace(trace)) if trace is not None else ()
    is_counted = requests is not None or duration is not None or bool(traced)
    workload = Workload(
        scenario=scenario,
        asked=Asked(
            model=model,
            prompt=prompt,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            media=tuple(map(_read_image, image)),
            images=Images(count=images, sizes=sizes, reuse=image_reuse) if images else None,
        ),
        requests=requests if is_counted else REQUESTS,
        duration_s=duration,
        streams=concurrency,
        arrivals=None
        if rate is None
        else Arrivals(process=arrivals, rate_per_s=rate, cv=cv, burst_size=burst_size, last_rate_per_s=to_rate),
        trace=traced,
        speed=speed,
        warmup=warmup,
        timeout_s=timeout,
        seed=seed,
        processes=processes,
    )
    endpoint = Endpoint(url=complete_url(url), headers={"Authorization": _KEY} if secrets else {}, verify=not insecure)
    with tempfile.TemporaryDirectory(prefix="vlmhyperbench-load-") as scratch:
        plan_folder, record_folder = Path(scratch) / "plan", record or Path(scratch) / "record"
        if record is not None and any(record.glob("*.parquet")):
            raise InvalidInput(f"{record} holds the record of another run.", cure="Give a new folder.")
        end, written, stopped_by = asyncio.run(_drive(workload, endpoint, plan_folder, record_folder, secrets, shown))
        if end.outcome == "failed" or not any(record_folder.glob(f"{MEASURED_PHASE}-*.parquet")):
            raise _failure(end)
        result = result_of(
            read_record(record_folder),
            end,
            measured_phase=MEASURED_PHASE,
            scheduled=written.requests,
            slo=limits_ms,
            open_loop=written.open_loop,
            grouping=written.grouping,
            driver_cpu_s=time.process_time(),
        )
    if shown.json:
        emit("load", result)
    else:
        print_result(result)
    if stopped_by is not None:
        return exits.TERMINATED if stopped_by == signal.SIGTERM else exits.INTERRUPTED
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
        slo_percent(name.strip())
        limits[name.strip()] = float(digits)
    return limits


def _read_key(name: str) -> str:
    key = os.environ.get(name, "")
    if not key:
        raise InvalidInput(f"The environment variable {name} is not set.", cure="Set it to the server's key.")
    return key


def _read_image(path: Path) -> str:
    try:
        return data_url(path.read_bytes(), mimetypes.guess_type(path.name)[0] or "image/png")
    except OSError as error:
        raise NotFound(f"The image {path} cannot be read: {error.strerror}.") from error


async def _drive(
    workload: Workload,
    endpoint: Endpoint,
    plan_folder: Path,
    record_folder: Path,
    secrets: dict[str, str],
    shown: Shown,
) -> tuple[EndLine, WrittenLoad, signal.Signals | None]:
    """Plan while the process starts, then hear it out; a signal ends it early and keeps what is done."""
    stopped_by: list[signal.Signals] = []
    async with await LoadProcess.start(plan_folder, record_folder) as process:
        written = await asyncio.to_thread(write_load, plan_folder, workload, endpoint)

        def stop(number: signal.Signals) -> None:
            stopped_by.append(number)
            process.cancel_soon()

        with _told_of_signals(stop):
            await process.ready(secrets)
            async for line in process.lines():
                if isinstance(line, ProgressLine) and line.phase == MEASURED_PHASE:
                    note(f"{line.done} done, {line.failed} failed, {line.in_flight} under way", shown)
        return await process.wait(), written, stopped_by[0] if stopped_by else None


@contextmanager
def _told_of_signals(stop: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call `stop` for Ctrl-C and SIGTERM in place of what they do else; only a main thread hears signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


def _failure(end: EndLine) -> Unavailable:
    reason = end.error or "it was cancelled"
    cure = "Check that the server runs and the URL is right." if reason.startswith("connect_failed") else ""
    return Unavailable(f"Nothing was measured: {reason}", cure=cure, code=reason.partition(":")[0])
