"""Conversations of a run: questions about the same pages, each asked with what was answered before.

A request that quotes answers which do not exist yet is rendered with a mark in the place of each; in the engine's own
body every mark is cut out, and its place noted for the load generator.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench_inference_worker.requests import PlannedRequest, request_digest

Places = list[tuple[int, int, int, int]]
"""Rows of `PLACE_DTYPE`."""


def converse(requests: Iterable[PlannedRequest], *, turns: int) -> list[PlannedRequest]:
    """Make conversations of requests: those with the same system prompt and pages, in their order.

    A turn shows no page again, and the system prompt stands before the first.

    Args:
        requests: of one phase, each a conversation of its own.
        turns: most turns of a conversation; what is left over begins another one.
    """
    groups: dict[object, list[list[PlannedRequest]]] = {}
    for request in requests:
        own = groups.setdefault((request.repeat, request.images, request.prompt.system), [])
        if not own or len(own[-1]) == turns:
            own.append([])
        own[-1].append(request)
    talks = [talk for own in groups.values() for talk in own]
    return [request for number, talk in enumerate(talks) for request in _turns(number, talk)]


def _turns(number: int, talk: Sequence[PlannedRequest]) -> Iterator[PlannedRequest]:
    messages: list[Any] = []
    for turn, asked in enumerate(talk):
        if turn:
            messages += [{"role": "assistant", "content": ""}, {"role": "user", "content": asked.prompt.user}]
        else:
            said: Any = asked.request["messages"]
            messages += said
        request = {**asked.request, "messages": list(messages)}
        yield replace(asked, request=request, request_sha256=request_digest(request), turn=turn, conversation=number)


def marked(request: PlannedRequest) -> str:
    """Write the JSON of a request with a mark in the place of each answer that it quotes.

    Raises:
        InvalidInput: the request holds such a mark itself.
    """
    if request.turn == 0:
        return json.dumps(request.request)
    if _MARK in json.dumps(request.request):
        raise InvalidInput(f"Sample {request.sample} says {_MARK!r}, which stands for answers in conversations.")
    messages, answers = list[Any](), 0
    said: Any = request.request["messages"]
    for message in said:
        is_answer = message["role"] == "assistant"
        messages.append({**message, "content": _mark(answers)} if is_answer else message)
        answers += is_answer
    return json.dumps({**request.request, "messages": messages})


_MARK = "@@the answer to turn "


def _mark(turn: int) -> str:
    return f"{_MARK}{turn}@@"


def cut_marks(bodies: Path, offsets: np.ndarray, requests: Sequence[PlannedRequest]) -> Places:
    """Cut the marks out of a file of bodies, and return where they were.

    Args:
        bodies: the file, which is written anew.
        offsets: `offset` and `bytes` of each body; changed with the file. Shape: (requests,).
        requests: whose bodies they are.

    Raises:
        InvalidInput: an engine's body does not quote each earlier answer exactly once.
    """
    places: Places = []
    written = bodies.with_suffix(".cut")
    with bodies.open("rb") as source, written.open("wb") as target:
        for row, request in zip(offsets, requests, strict=True):
            source.seek(int(row["offset"]))
            body = source.read(int(row["bytes"]))
            for turn in range(request.turn):
                before, found, after = body.partition(f'"{_mark(turn)}"'.encode())
                if not found or _mark(turn).encode() in after:
                    raise InvalidInput("The engine's form of a conversation does not quote every answer once.")
                places.append((request.phase, request.ordinal, turn, len(before) + 1))
                body = before + b'""' + after
            row["offset"], row["bytes"] = target.tell(), len(body)
            target.write(body)
    written.replace(bodies)
    return places
