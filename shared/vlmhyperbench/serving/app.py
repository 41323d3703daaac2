"""The endpoints of a served pipeline, as a gateway expects them of an engine."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from vlmhyperbench.domain.chat_bodies import USUAL, chat_body
from vlmhyperbench.domain.pipelines import AskedModel, PipelineTarget, asked_models, is_dispensable, refusal_of_images
from vlmhyperbench.domain.response_formats import format_of_sample
from vlmhyperbench.domain.targets import EndpointTarget, ModelTarget
from vlmhyperbench.scoring.combining import Combiner
from vlmhyperbench.serving.asking import Answer, ModelLost, PipelineQuestion, Tell, Told
from vlmhyperbench.serving.plan import ServingPlan
from vlmhyperbench.serving.questions import Question, fitted, read_question
from vlmhyperbench.serving.replies import Head, problem_of, refusal, written
from vlmhyperbench.serving.switching import ModelSwitch, NotLoaded
from vlmhyperbench.serving.upstreams import CHAT_PATH, Upstreams, failed
from vlmhyperbench_sdk.endpoint import read_options
from vlmhyperbench_sdk.errors import InvalidInput, VlmHyperBenchError
from vlmhyperbench_sdk.jsontext import parse_object
from vlmhyperbench_sdk.types import Prompt

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MAX_BODY_BYTES: Final = 256 * 1024 * 1024
"""Longest request; a gateway passes no longer one on."""
MAX_FORMATS: Final = 64
"""Response formats for which the opened pipeline is kept."""


class Left(Exception):
    """The client has left before its answer was whole."""


class ServedApp:
    """An ASGI application that answers for a pipeline."""

    def __init__(self, plan: ServingPlan, upstreams: Upstreams, switch: ModelSwitch) -> None:
        """Open the pipeline.

        Raises:
            NotFound, InvalidInput, Conflict, PluginFailure: an aggregation cannot be opened.
        """
        self._plan, self._upstreams, self._switch = plan, upstreams, switch
        self._opened: dict[str, tuple[PipelineTarget, Combiner]] = {}
        self._asked = {asked.key: asked for asked in asked_models(plan.target) if plan.model(asked) is not None}
        self._started_at = int(time.time())
        Combiner(plan.target)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        match scope["type"], scope.get("method"), scope.get("path"):
            case "http", "GET", "/health":
                await _whole(send, 200, {"status": "ok"})
            case "http", "GET", "/v1/models":
                model = {"id": self._plan.target.pipeline, "object": "model", "created": self._started_at}
                await _whole(send, 200, {"object": "list", "data": [{**model, "owned_by": "pipeline"}]})
            case "http", "POST", path if path == CHAT_PATH:
                with suppress(Left):
                    await self._chat(receive, send)
            case "http", _, _:
                await _whole(send, 404, refusal("There is no such endpoint.", "not_found"))
            case _:
                raise LookupError(f"A pipeline speaks no {scope['type']}.")

    async def _chat(self, receive: Receive, send: Send) -> None:
        try:
            question = read_question(parse_object(await _body(receive), what="The body"))
            pipeline, combiner = self._open(question)
            self._require_sight(question)
        except InvalidInput as error:
            await _whole(send, 400, refusal(str(error), error.code))
            return
        head = Head(
            id=f"chatcmpl-{secrets.token_hex(12)}",
            created=int(time.time()),
            model=pipeline.pipeline,
            fallbacks=self._plan.fallbacks,
        )
        if question.is_streamed:
            await _start(send, 200, b"text/event-stream")

            async def tell(piece: str) -> None:
                await _more(send, head.piece(piece))

            try:
                answer = await _unless_left(receive, self._answer(question, pipeline, combiner, tell))
                end = head.end(answer, pipeline, wants_usage=question.wants_usage)
            except VlmHyperBenchError as error:
                end = b"data: " + written(refusal(str(error), error.code)) + b"\n\n"
            await _more(send, end, is_last=True)
            return
        try:
            answer = await _unless_left(receive, self._answer(question, pipeline, combiner, None))
        except ModelLost as error:
            await _whole(send, 503, refusal(str(error), error.code))
            return
        except VlmHyperBenchError as error:
            await _whole(send, 500, refusal(str(error), error.code))
            return
        if answer.last.value is None:
            await _whole(send, 503 if answer.lost else 502, problem_of(answer))
        else:
            await _bytes(send, 200, head.whole(answer, pipeline))

    def _open(self, question: Question) -> tuple[PipelineTarget, Combiner]:
        """Return the pipeline in the format that is asked for, opened."""
        wanted = written({"format": question.response_format}).decode()
        if wanted not in self._opened:
            pipeline = fitted(self._plan.target, question.response_format)
            if len(self._opened) >= MAX_FORMATS:
                self._opened.pop(next(iter(self._opened)))
            self._opened[wanted] = pipeline, Combiner(pipeline)
        return self._opened[wanted]

    def _require_sight(self, question: Question) -> None:
        """Refuse images where a model would be asked about them that reads none.

        Raises:
            InvalidInput: there is one (code `images_unsupported`).
        """
        for asked in self._asked.values() if question.images else ():
            refusal = refusal_of_images(asked)
            if refusal is not None and not is_dispensable(self._plan.target, asked):
                raise InvalidInput(refusal[0], cure=refusal[1], code="images_unsupported")

    async def _answer(
        self, question: Question, pipeline: PipelineTarget, combiner: Combiner, tell: Tell | None
    ) -> Answer:
        async def ask(asked: AskedModel, prompt: Prompt, tell: Tell) -> Told:
            served = self._plan.model(asked)
            if served is None:
                raise LookupError(f"The model {asked.model.name} is not loaded.")
            target = asked.model.target
            body = chat_body(
                model=target.served_name,
                prompt=prompt,
                images=question.images if asked.model.sees_images else (),
                decoding=served.decoding(question.decoding),
                response_format=format_of_sample(asked.stage.response_format, {}, key=""),
                style=target.request_style if isinstance(target, ModelTarget) else "openai_chat",
                languages=asked.stage.languages,
                options=read_options(target.engine_params) if isinstance(target, EndpointTarget) else USUAL,
            )
            try:
                async with self._switch.using(served):
                    told = await self._upstreams.ask(served.url, body, tell)
                    if told.reply.text is not None or told.reply.failure != "infrastructure":
                        return told
                    reason = await self._switch.why_lost(served)
            except NotLoaded as error:
                return replace(failed("not_loaded", str(error)), is_lost=True)
            return told if reason is None else replace(failed("model_lost", reason), is_lost=True)

        return await PipelineQuestion(pipeline, combiner, asked=self._asked, ask=ask, tell=tell).answer(question.prompt)


async def _unless_left(receive: Receive, answering: Awaitable[Answer]) -> Answer:
    """Return an answer; if the client leaves before, cancel what is asked for it.

    Raises:
        Left: the client has left.
    """
    task, leaving = asyncio.ensure_future(answering), asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait([task, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Left
        return await task
    finally:
        for each in (task, leaving):
            each.cancel()
        await asyncio.wait([task, leaving])


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _body(receive: Receive) -> bytes:
    pieces, size = list[bytes](), 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Left
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > MAX_BODY_BYTES:
            raise InvalidInput("The body is longer than 256 MiB.", cure="Send smaller images.", code="too_large")
        if not message.get("more_body"):
            return b"".join(pieces)


async def _start(send: Send, status: int, media_type: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", media_type)]})


async def _more(send: Send, data: bytes, *, is_last: bool = False) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": not is_last})


async def _bytes(send: Send, status: int, data: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    headers += [(b"retry-after", b"1")] if status == 503 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await _more(send, data, is_last=True)


async def _whole(send: Send, status: int, body: dict[str, Any]) -> None:
    await _bytes(send, status, written(body))
