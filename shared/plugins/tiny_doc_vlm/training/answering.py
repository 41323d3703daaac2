"""Send questions to the model: to its files with llama.cpp's server, or to any OpenAI-compatible server."""

from __future__ import annotations

import base64
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2

import vlmhyperbench_tiny_doc_vlm as tiny
from training.held_out import Item
from training.options import at_least_one
from training.serving import PARALLEL_REQUESTS, serve
from vlmhyperbench_sdk.errors import Unavailable

MAX_ANSWER_TOKENS = 560
"""More than any right answer of the suites has; together with the longest question it fits into the context."""
MODEL = "a committed version, a folder of exported files, or http://HOST:PORT"
_ADDRESS = ("http://", "https://")
ANSWER_S = 600
"""Timeout of a request, sufficient for the slowest machine."""


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `answer`."""
    parser.add_argument("--name", default=tiny.NAME, help="the model's name on the server")
    parser.add_argument("--parallel", type=at_least_one, default=PARALLEL_REQUESTS, help="requests at a time")


def a_model(text: str) -> str:
    """Parse the target; errors are reported by `argparse` with the option's name."""
    if text.startswith(_ADDRESS) or text in tiny.versions() or Path(text).is_dir():
        return text
    raise ArgumentTypeError(f"{text!r} is none of: {MODEL}")


def answer(model: str, items: Sequence[Item], given: Namespace) -> list[str]:
    """Return the answers of a target, in the order of the items.

    Args:
        model: The URL of a server; or a committed version or a folder of exported files, which llama.cpp serves in
            16 bits.
        items: The questions.
        given: The options of `add_options`.
    """
    if model.startswith(_ADDRESS):
        return answer_with_server(model, items, model=given.name, parallel=given.parallel)
    folder = tiny.path("config.json", model).parent if model in tiny.versions() else Path(model)
    with serve(folder) as url:
        return answer_with_server(url, items, model=tiny.NAME, parallel=given.parallel)


def answer_with_server(url: str, items: Sequence[Item], *, model: str, parallel: int) -> list[str]:
    """Return the answers of `url`/v1/chat/completions at temperature 0, in the order of the items.

    Raises:
        Unavailable: the server does not respond, or refuses a request.
    """

    def ask(item: Item) -> str:
        body = {"model": model, "temperature": 0, "max_tokens": MAX_ANSWER_TOKENS, "messages": _messages(item)}
        try:
            response = client.post(f"{url.rstrip('/')}/v1/chat/completions", json=body)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Unavailable(f"{url} does not answer: {error!r}.") from error
        if not response.is_success:
            raise Unavailable(f"{url} refuses a request: {response.text[:500]}")
        try:
            return str(response.json()["choices"][0]["message"]["content"] or "")
        except (ValueError, LookupError, TypeError) as error:
            raise Unavailable(f"{url} answers, but not as OpenAI's protocol has it: {error!r}.") from error

    # The server may close a kept-alive connection while the next request is sent, so each request has its own.
    limits = httpx2.Limits(max_keepalive_connections=0)
    with httpx2.Client(timeout=ANSWER_S, limits=limits) as client, ThreadPoolExecutor(parallel) as pool:
        return list(pool.map(ask, items))


def _messages(item: Item) -> list[dict[str, object]]:
    page = "data:image/png;base64," + base64.b64encode(item.image).decode()
    content = [{"type": "image_url", "image_url": {"url": page}}, {"type": "text", "text": item.question}]
    system = [{"role": "system", "content": item.system_prompt}] if item.system_prompt else []
    return [*system, {"role": "user", "content": content}]
