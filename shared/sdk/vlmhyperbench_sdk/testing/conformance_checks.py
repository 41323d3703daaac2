"""The checks of the conformance suite, in the order in which they run; each raises what `conformance` counts."""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
import re
import struct
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from vlmhyperbench_sdk.testing.conformance_session import CheckFailed, CheckNotRun, Session, is_running
from vlmhyperbench_sdk.types import JsonValue

OVER_LIMIT = 200
"""Number of streams beyond the gateway's limit."""
CANCELLED = 16
"""Number of streams that are cancelled; more than the slots that an engine usually has."""
FREE_S = 30.0
"""Maximum time until a cancelled stream is no longer in flight, and until the memory of an engine is free."""
MEMORY_TOLERANCE = 0.02
SCHEMA: Mapping[str, JsonValue] = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": ["red", "green"]}, "is_page": {"type": "boolean"}},
    "required": ["colour", "is_page"],
    "additionalProperties": False,
}
PATTERN = "[0-9]{3}-[a-z]{2}"
_IN_FLIGHT = re.compile(rb"^vlmhyperbench_gateway_requests_in_flight (\d+)", re.MULTILINE)


def check_text(session: Session) -> None:
    """A text gets an answer with a finish reason and its usage."""
    answer = session.ask()
    _expect(answer.choices[0].finish_reason in {"stop", "length"}, f"it ends with {answer.choices[0].finish_reason!r}")
    _expect(answer.usage is not None and answer.usage.completion_tokens >= 1, "the answer states no usage")
    _expect(answer.usage.prompt_tokens >= 1, "the usage states no tokens of the prompt")


def check_image(session: Session) -> None:
    """An image gets an answer, and costs tokens."""
    plain = session.ask("Read this page.").usage.prompt_tokens
    shown = session.ask_unless_refused("image", _content("Read this page.", 1)).usage.prompt_tokens
    _expect(shown > plain, f"the prompt has {shown} tokens with an image, and {plain} without")


def check_several_images(session: Session) -> None:
    """Two images of one message get an answer, and cost more tokens than one."""
    first = session.ask_unless_refused("image", _content("Compare.", 1)).usage.prompt_tokens
    both = session.ask_unless_refused("image", _content("Compare.", 2)).usage.prompt_tokens
    _expect(both > first, f"the prompt has {both} tokens with two images, and {first} with one")


def check_stream_equals_whole(session: Session) -> None:
    """A stream gives the text, the finish reason and the usage of the whole answer."""
    whole = session.ask()
    chunks = list(session.ask(stream=True, stream_options={"include_usage": True}))
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    usages = [chunk.usage for chunk in chunks if chunk.usage is not None]
    expected = whole.choices[0]
    _expect(text == (expected.message.content or ""), f"the stream says {text!r}, not {expected.message.content!r}")
    _expect(reasons == [expected.finish_reason], f"the stream ends with {reasons}, not {expected.finish_reason!r}")
    _expect(len(usages) == 1, f"the stream states its usage {len(usages)} times")
    _expect(usages[0].completion_tokens == whole.usage.completion_tokens, "stream and answer count tokens differently")


def check_stop(session: Session) -> None:
    """An answer ends before the first stop string, which it does not contain.

    Raises:
        CheckNotRun: the whole answer is too short.
    """
    whole = session.text()
    if len(whole) < 2:
        raise CheckNotRun(f"The answer {whole!r} is too short to stop inside of it.")
    stop = whole[len(whole) // 2]
    answer = session.ask(stop=[stop])
    text = answer.choices[0].message.content or ""
    expected = whole.partition(stop)[0]
    _expect(text.rstrip() == expected.rstrip(), f"with the stop string {stop!r} it says {text!r}, not {expected!r}")
    _expect(answer.choices[0].finish_reason == "stop", f"it ends with {answer.choices[0].finish_reason!r}")


def check_seed(session: Session) -> None:
    """The same seed gives the same answer at temperature 1."""
    first, second = (session.ask_unless_refused("seed", temperature=1.0, seed=7) for _ in range(2))
    texts = [answer.choices[0].message.content for answer in (first, second)]
    _expect(texts[0] == texts[1], f"the seed 7 gives {texts[0]!r} and {texts[1]!r}")


def check_json_schema(session: Session) -> None:
    """An answer by a JSON Schema keeps it."""
    wanted = {"type": "json_schema", "json_schema": {"name": "page", "strict": True, "schema": SCHEMA}}
    answer = session.ask_unless_refused("json_schema", response_format=wanted, max_tokens=64)
    text = answer.choices[0].message.content or ""
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise CheckFailed(f"The answer {text!r} is not JSON.") from error
    is_kept = isinstance(parsed, dict) and set(parsed) == {"colour", "is_page"}
    _expect(
        is_kept and parsed["colour"] in {"red", "green"} and isinstance(parsed["is_page"], bool),
        f"the answer {text!r} does not keep the schema",
    )


def check_regex(session: Session) -> None:
    """An answer by a pattern matches it."""
    body = {"response_format": {"type": "regex", "regex": PATTERN}}
    answer = session.ask_unless_refused("regex", extra_body=body, max_tokens=32)
    text = answer.choices[0].message.content or ""
    _expect(re.fullmatch(PATTERN, text) is not None, f"the answer {text!r} does not match {PATTERN}")


def check_over_long_input(session: Session) -> None:
    """A prompt beyond the context is refused with an error code, and the next request is answered."""
    words = 1_000_000 if session.target.context_tokens is None else 2 * session.target.context_tokens
    try:
        session.ask("page " * words)
    except session.openai.APIStatusError as error:
        _expect(error.status_code in {400, 413, 422}, f"it is answered {error.status_code}: {str(error.message)[:200]}")
    else:
        raise CheckFailed(f"A prompt of {words} words is answered.")
    check_text(session)


def check_cancelled_stream(session: Session) -> None:
    """Streams whose client leaves are no longer in flight, and their slots answer others."""
    for _ in range(CANCELLED):
        stream = session.ask("Tell a story.", stream=True, max_tokens=512)
        next(iter(stream), None)
        stream.close()
    _wait_idle(session)
    check_text(session)


def check_overload(session: Session) -> None:
    """Of many more streams than the limit, each is answered whole or refused with 429; the next request is answered."""
    count = session.target.max_in_flight + OVER_LIMIT
    ends = asyncio.run(_open_streams(session, count))
    refused, whole = ends.count("429"), ends.count("whole")
    others = sorted({end for end in ends if end not in {"429", "whole"}})
    _expect(not others, f"of {count} streams some end otherwise: {'; '.join(others)[:500]}")
    _expect(refused > 0, f"none of {count} streams is refused with 429, though the limit is stated as lower")
    _expect(whole > 0, "no stream is answered")
    _wait_idle(session)
    check_text(session)


def check_unload(session: Session) -> None:
    """An unload ends the engine's process, and what accelerators hold after it does not grow from load to load.

    Raises:
        CheckNotRun: the load request is not known.
    """
    if session.target.load is None:
        raise CheckNotRun("The suite was not given the load request.")
    left = []
    for _ in range(2):
        pid = session.engine.get("pid")
        session.status = session.control("POST", "/v1/model/unload", {})
        _expect(session.status["state"] == "unloaded", f"after the unload the state is {session.status['state']}")
        _wait(_has_ended(pid), f"the engine's process {pid} still runs after its unload")
        left.append(_accelerator_bytes())
        session.load_again()
    if left[0] is not None and left[1] is not None:
        _expect(
            left[1] <= left[0] * (1 + MEMORY_TOLERANCE),
            f"the accelerators hold {left[0]} bytes after the first unload, and {left[1]} after the second",
        )


def check_reload(session: Session) -> None:
    """A model that is loaded again gives the same answer.

    Raises:
        CheckNotRun: the load request is not known.
    """
    if session.target.load is None:
        raise CheckNotRun("The suite was not given the load request.")
    before, pid = session.text(), session.engine.get("pid")
    session.load_again()
    _expect(session.status["state"] == "ready", f"after the load the state is {session.status['state']}")
    _expect(pid is None or session.engine.get("pid") != pid, "the engine's process is the same after a reload")
    after = session.text()
    _expect(after == before, f"after the reload it says {after!r}, not {before!r}")


CHECKS: Mapping[str, Callable[[Session], None]] = {
    "text": check_text,
    "image": check_image,
    "several_images": check_several_images,
    "stream_equals_whole": check_stream_equals_whole,
    "stop": check_stop,
    "seed": check_seed,
    "json_schema": check_json_schema,
    "regex": check_regex,
    "over_long_input": check_over_long_input,
    "cancelled_stream_frees_its_slot": check_cancelled_stream,
    "streams_over_the_limit": check_overload,
    "unload_frees_memory": check_unload,
    "reload": check_reload,
}


async def _open_streams(session: Session, count: int) -> list[str]:
    """Open streams at once and return how each ended: `whole`, `429`, or what happened instead."""
    async with session.asynchronous() as client:

        async def drive() -> str:
            try:
                stream = await client.chat.completions.create(**session.request(stream=True))
                reasons = [choice.finish_reason async for chunk in stream for choice in chunk.choices]
            except session.openai.RateLimitError as error:
                return "429" if error.response.headers.get("retry-after") else "429 without Retry-After"
            except session.openai.OpenAIError as error:
                return f"{type(error).__name__}: {error}"
            return "whole" if reasons and reasons[-1] else "a stream without its end"

        return await asyncio.gather(*(drive() for _ in range(count)))


def _wait_idle(session: Session) -> None:
    def is_idle() -> bool:
        found = _IN_FLIGHT.search(session.read("GET", "/metrics"))
        return found is not None and int(found[1]) == 0

    _wait(is_idle, f"requests are in flight {FREE_S:g} s after their clients left")


def _wait(is_so: Callable[[], bool], problem: str) -> None:
    deadline = time.monotonic() + FREE_S
    while not is_so():
        _expect(time.monotonic() < deadline, problem)
        time.sleep(0.05)


def _has_ended(pid: object) -> Callable[[], bool]:
    return lambda: not is_running(pid)


def _accelerator_bytes() -> int | None:
    """Return the memory that the machine's GPUs hold; None without a GPU or without NVML's bindings."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
        handles = [nvml.nvmlDeviceGetHandleByIndex(no) for no in range(nvml.nvmlDeviceGetCount())]
        return sum(int(nvml.nvmlDeviceGetMemoryInfo(handle).used) for handle in handles) if handles else None
    except nvml.NVMLError:
        return None


def _content(text: str, images: int) -> JsonValue:
    """Return a message with images of different colours before its text."""
    urls = [_png_url((255, 255 - 120 * number, 90 * number)) for number in range(images)]
    shown: list[JsonValue] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [*shown, {"type": "text", "text": text}]


def _png_url(colour: tuple[int, int, int], side: int = 96) -> str:
    """Return a data URL of a square of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes(colour) * side) * side)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _expect(is_so: bool, problem: str) -> None:
    if not is_so:
        raise CheckFailed(f"{problem[0].upper()}{problem[1:]}.")
