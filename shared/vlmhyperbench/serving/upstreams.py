"""Ask a model through its gateway: one streamed request, whose answer is told as it arrives."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Final

import httpx2
from pydantic import JsonValue

from vlmhyperbench.domain.causes import failure_of, read_failure
from vlmhyperbench.scoring.combining import Reply
from vlmhyperbench.serving.asking import Tell, Told
from vlmhyperbench_sdk.completions import CODE, BadAnswer, ChoiceStream, parse_document, usage_counts

CHAT_PATH: Final = "/v1/chat/completions"
CONNECT_S: Final = 10.0
ANSWER_S: Final = 3600.0
"""Longest time without a piece of an answer; a gateway gives its engine no longer."""
_MAX_ERROR: Final = 2000
_NOBODY_BEHIND: Final = frozenset({502, 503, 504})
"""With which a gateway or a proxy says that its engine does not answer."""


class Upstreams:
    """The gateways of a pipeline's models."""

    def __init__(self, key: str) -> None:
        """Open the connections' pool; `key` is what every gateway takes."""
        self._http = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {key}"},
            timeout=httpx2.Timeout(ANSWER_S, connect=CONNECT_S),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
            trust_env=False,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def ask(self, url: str, body: dict[str, JsonValue], tell: Tell) -> Told:
        """Ask a model; a failure is an answer too. Being cancelled closes the connection, which ends its request."""
        begun_ns = time.monotonic_ns()
        try:
            async with self._http.stream(
                "POST", f"{url}{CHAT_PATH}", content=_bytes(body), headers={"Content-Type": "application/json"}
            ) as response:
                if response.status_code != 200:
                    text = (await response.aread()).decode("utf-8", "replace")
                    return failed(f"http_{response.status_code}", _message(text), http_status=response.status_code)
                return await _read(response.aiter_lines(), begun_ns, tell)
        except httpx2.HTTPError as error:
            return failed("connection", f"the gateway does not answer: {error!r}")
        except BadAnswer as error:
            return failed(CODE, str(error))


async def _read(lines: AsyncIterator[str], begun_ns: int, tell: Tell) -> Told:
    choice, texts, counts = ChoiceStream(), list[str](), dict[str, int | None]()
    last_ns = begun_ns
    async for line in lines:
        if not line.startswith("data:"):
            continue
        payload = line[5:].strip()
        if payload == "[DONE]":
            continue  # the end of the body is read too, so that the connection can be used again
        chunk, _ = parse_document(payload.encode())
        if chunk.get("error"):
            return failed("stream", _message(payload))
        for content in choice.take(chunk).values():
            if content.bears_tokens:
                last_ns = time.monotonic_ns()
            if content.text:
                texts.append(content.text)
                await tell(content.text)
        counts.update(usage_counts(chunk))
    choice.check_end()
    reply = Reply(
        text="".join(texts),
        latency_ns=last_ns - begun_ns,
        prompt_tokens=counts.get("prompt_tokens"),
        completion_tokens=counts.get("completion_tokens"),
        finish_reason=choice.finish_reasons.get(0),
    )
    return Told(reply=reply)


def failed(code: str, message: str, *, http_status: int | None = None) -> Told:
    """Return the answer of a model that has none."""
    error = f"{code}: {message}"
    read = read_failure(status="error", http_status=http_status, error=error)
    failure = failure_of(read) if read is not None else "infrastructure"
    return Told(reply=Reply(error=error, failure=failure), is_lost=http_status in _NOBODY_BEHIND)


def _message(text: str) -> str:
    try:
        error = json.loads(text)["error"]
        message = error["message"] if isinstance(error, dict) else error
    except (ValueError, KeyError, TypeError):
        message = text
    return str(message)[:_MAX_ERROR]


def _bytes(body: dict[str, JsonValue]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")
