"""Conversations of a run: questions about the same pages, each sent with the earlier questions and their answers.

Earlier answers do not exist yet when a request is rendered. A mark stands for each of them. The marks are cut out of
the bodies for the engine, and their offsets are noted for the load generator, which inserts the answers.
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
    """Group requests with the same system prompt and pages into conversations, in their order.

    Only the first turn has the system prompt and the pages.

    Args:
        requests: single requests of one phase.
        turns: maximum number of turns of a conversation; further requests begin another conversation.
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
    for turn, single in enumerate(talk):
        if turn:
            messages += [{"role": "assistant", "content": ""}, {"role": "user", "content": single.prompt.user}]
        else:
            first: Any = single.request["messages"]
            messages += first
        request = {**single.request, "messages": list(messages)}
        yield replace(single, request=request, request_sha256=request_digest(request), turn=turn, conversation=number)


def marked(request: PlannedRequest) -> str:
    """Return the JSON of a request with a mark for each answer that it quotes.

    Raises:
        InvalidInput: the sample's own text holds a mark.
    """
    if request.turn == 0:
        return json.dumps(request.request)
    if _MARK in json.dumps(request.request):
        raise InvalidInput(f"Sample {request.sample} holds {_MARK!r}, which stands for answers in conversations.")
    messages, answers = list[Any](), 0
    rendered: Any = request.request["messages"]
    for message in rendered:
        is_answer = message["role"] == "assistant"
        messages.append({**message, "content": _mark(answers)} if is_answer else message)
        answers += is_answer
    return json.dumps({**request.request, "messages": messages})


_MARK = "@@the answer to turn "


def _mark(turn: int) -> str:
    return f"{_MARK}{turn}@@"


def cut_marks(bodies: Path, offsets: np.ndarray, requests: Sequence[PlannedRequest]) -> Places:
    """Cut the marks out of a file of bodies, and return their offsets.

    Args:
        bodies: the file, which is rewritten.
        offsets: `offset` and `bytes` of each body; updated with the file. Shape: (requests,).
        requests: the requests of the bodies, in their order.

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
                before, mark, after = body.partition(f'"{_mark(turn)}"'.encode())
                if not mark or _mark(turn).encode() in after:
                    raise InvalidInput(
                        "The engine's form of a conversation does not quote every answer once.",
                        cure="Correct to_engine of the adapter: it must keep each message of the assistant.",
                    )
                places.append((request.phase, request.ordinal, turn, len(before) + 1))
                body = before + b'""' + after
            row["offset"], row["bytes"] = target.tell(), len(body)
            target.write(body)
    written.replace(bodies)
    return places
