"""Record the answers of an OpenAI-compatible server to requests that it cannot serve, as JSON lines on stdout.

Run it against a running server: `python -m tests.refusals.record URL --model NAME --server vllm --version 0.32.0`.
Append the lines to `recorded.jsonl` by hand, and add the `rule`, `cause` and `alone` of each.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8ffff3f0005fe02fe"
        "dccc59e70000000049454e44ae426082"
    )
).decode()
TRUNCATED = base64.b64encode(base64.b64decode(PIXEL)[:45]).decode()
MAX_BODY_BYTES = 8000
TIMEOUT_S = 20


def cases(model: str, context: int | None) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the requests: name, path, body."""
    chat = "/v1/chat/completions"
    base: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": "How much is the total?"}],
        "max_tokens": 4,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    yield "ok", chat, base
    yield "image", chat, base | {"messages": [_message_with_image(f"data:image/png;base64,{PIXEL}")]}
    yield "unknown model", chat, base | {"model": "no-such-model"}
    yield "unknown model, whole", chat, {**base, "model": "no-such-model", "stream": False, "stream_options": None}
    yield "unknown field", chat, base | {"frobnicate": True}
    yield "wrong type", chat, base | {"max_tokens": "many"}
    yield "value out of range", chat, base | {"temperature": -3}
    yield "unknown response format", chat, base | {"response_format": {"type": "frob"}}
    broken = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "frob"}}}
    yield "broken schema", chat, base | {"response_format": broken}
    no_schema = {"type": "json_schema", "json_schema": {"name": "x"}}
    yield "missing schema", chat, base | {"response_format": no_schema}
    yield "no messages", chat, {name: value for name, value in base.items() if name != "messages"}
    yield "prompt too long", chat, base | {"messages": [{"role": "user", "content": "total " * 20_000}]}
    yield "max_tokens too large", chat, base | {"max_tokens": 10_000_000}
    if context:
        yield "prompt and answer too long", chat, base | {"max_tokens": context}
    no_image = base64.b64encode(b"no image").decode()
    yield "unreadable image", chat, base | {"messages": [_message_with_image(f"data:image/png;base64,{no_image}")]}
    yield "truncated image", chat, base | {"messages": [_message_with_image(f"data:image/png;base64,{TRUNCATED}")]}
    yield "image at no address", chat, base | {"messages": [_message_with_image("http://127.0.0.1:9/page.png")]}
    yield "wrong path", "/v1/chat/complete", base


def _message_with_image(url: str) -> dict[str, Any]:
    question = {"type": "text", "text": "How much is the total?"}
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}, question]}


def ask(url: str, body: dict[str, Any], key: str | None) -> tuple[int, str]:
    """Send a request and return the status and the beginning of the answer; status 0 without an answer."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return answer.status, answer.read(MAX_BODY_BYTES).decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read(MAX_BODY_BYTES).decode("utf-8", "replace")
    except OSError as error:
        return 0, str(error)


def main(arguments: list[str]) -> int:
    """Read the command line, send the request of each case and print one line for it."""
    parser = argparse.ArgumentParser(prog="python -m tests.refusals.record", description=__doc__)
    parser.add_argument("url", help="http://HOST:PORT")
    parser.add_argument("--model", required=True)
    parser.add_argument("--server", required=True, help="name of the server")
    parser.add_argument("--version", required=True, help="its version")
    parser.add_argument("--context", type=int, help="its context in tokens; an answer of this length is requested too")
    parser.add_argument(
        "--key", help="the API key that it requires; requests with another key and without are sent too"
    )
    args = parser.parse_args(arguments)
    requests = [(name, path, body, args.key) for name, path, body in cases(args.model, args.context)]
    if args.key:
        _, path, body, _ = requests[0]
        requests += [("wrong key", path, body, "wrong"), ("no key", path, body, None)]
    for name, path, body, key in requests:
        status, text = ask(args.url + path, body, key)
        line = {"server": args.server, "version": args.version, "case": name, "http_status": status, "body": text}
        sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
