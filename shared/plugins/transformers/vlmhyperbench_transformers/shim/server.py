"""The routes of the server: chat completions, the model, what was loaded, and whether it is there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from vlmhyperbench_transformers.shim.answers import DONE, Answer, Piece, Usage, event
from vlmhyperbench_transformers.shim.asking import Asked, read_request
from vlmhyperbench_transformers.shim.constraints import Constraints
from vlmhyperbench_transformers.shim.engine import Engine, Event, Job
from vlmhyperbench_transformers.shim.http import HttpRequest, HttpResponse, json_response
from vlmhyperbench_transformers.shim.loading import Loaded, properties
from vlmhyperbench_transformers.shim.options import Options
from vlmhyperbench_transformers.shim.prompts import prepare
from vlmhyperbench_transformers.shim.refusal import Refusal, invalid


class Server:
    """Answers requests by one engine."""

    def __init__(self, loaded: Loaded, options: Options, warnings: Sequence[str] = ()) -> None:
        """Create the server in a running event loop."""
        self._loaded, self._options, self._warnings = loaded, options, list(warnings)
        self._loop = asyncio.get_running_loop()
        self._constraints = Constraints(loaded)
        self._engine = Engine(loaded, options.max_batch, self._post)
        self._engine.start()
        self._queues: dict[Job, asyncio.Queue[Event]] = {}
        self._preparing = ThreadPoolExecutor(1, "prompts")  # tokenizers are not made for several threads
        self._in_flight = 0
        self._created = int(time.time())

    async def handle(self, request: HttpRequest) -> HttpResponse:
        """Answer one request."""
        route = (request.method, request.path)
        if route == ("POST", "/v1/chat/completions"):
            try:
                return await self._chat(request.body)
            except Refusal as refusal:
                headers = {"retry-after": "1"} if refusal.status == 429 else {}
                return json_response(refusal.body(), refusal.status, headers)
        if route == ("GET", "/health"):
            return json_response({"status": "ok"})
        if route == ("GET", "/v1/models"):
            return json_response({"object": "list", "data": [self._model()]})
        if route == ("GET", "/props"):
            return json_response(
                {
                    **properties(self._loaded, self._options),
                    "formats_missing": self._constraints.missing or None,
                    "warnings": self._warnings,
                }
            )
        return json_response(Refusal(404, "not_found", f"There is no {request.method} {request.path}.").body(), 404)

    async def _chat(self, body: bytes) -> HttpResponse:
        asked = read_request(body, self._options.name)
        if asked.n > self._options.max_batch:
            raise invalid(f"n is at most {self._options.max_batch}, the model's max_batch.", "unsupported")
        limit = self._options.max_batch + self._options.max_waiting
        if self._in_flight >= limit:
            raise Refusal(429, "busy", f"{limit} requests are in flight. Try again in a moment.")
        self._in_flight += 1
        job, is_streamed = None, False
        try:
            job = await self._loop.run_in_executor(self._preparing, self._prepare, asked)
            self._queues[job] = asyncio.Queue()
            self._engine.submit(job)
            first = await self._queues[job].get()
            if isinstance(first, Refusal):
                raise first
            answer = Answer(model=self._options.name)
            if asked.stream:
                is_streamed = True
                return HttpResponse(events=self._stream(answer, job, first), on_end=partial(self._leave, job))
            pieces, usage = await self._collect(job, first)
            return HttpResponse(body=answer.whole(pieces, usage, with_logprobs=asked.logprobs))
        finally:
            if not is_streamed:
                self._leave(job)

    def _prepare(self, asked: Asked) -> Job:
        """Turn a request into a job; this runs in the thread that tokenizes."""
        inputs = prepare(self._loaded, asked.messages, asked.template)
        prompt = inputs["input_ids"][0].tolist()
        room = self._loaded.max_context - len(prompt)
        wanted = asked.max_tokens or max(1, asked.min_tokens)
        if wanted > room:
            raise invalid(
                f"The prompt has {len(prompt)} tokens and the answer at least {wanted}; the model's context has "
                f"{self._loaded.max_context}. Shorten the prompt, lower max_tokens, or raise max_context.",
                "context_length_exceeded",
            )
        constraint = self._constraints.create(asked.format) if asked.format else None
        return Job(
            asked=asked, inputs=inputs, prompt=prompt, max_tokens=asked.max_tokens or room, constraint=constraint
        )

    def _leave(self, job: Job | None) -> None:
        self._in_flight -= 1
        if job is not None and self._queues.pop(job, None) is not None:
            self._engine.cancel(job)

    def _post(self, events: list[tuple[Job, Event]]) -> None:
        self._loop.call_soon_threadsafe(self._deliver, events)

    def _deliver(self, events: list[tuple[Job, Event]]) -> None:
        for job, happened in events:
            if queue := self._queues.get(job):
                queue.put_nowait(happened)

    async def _collect(self, job: Job, first: Event) -> tuple[list[Piece], Usage]:
        pieces: list[Piece] = []
        current = first
        while isinstance(current, Piece):
            pieces.append(current)
            current = await self._queues[job].get()
        if isinstance(current, Refusal):
            raise current
        return pieces, current

    async def _stream(self, answer: Answer, job: Job, first: Event) -> AsyncIterator[bytes]:
        """Yield the events of an answer; what a step brought for several choices is sent together."""
        queue = self._queues[job]
        begun: set[int] = set()
        current, data = first, b""
        while isinstance(current, Piece):
            if current.text or current.finish or current.logprobs:
                is_first = current.choice not in begun
                begun.add(current.choice)
                data += answer.chunk(current, is_first=is_first, with_logprobs=job.asked.logprobs)
            if queue.empty() and data:
                yield data
                data = b""
            current = await queue.get()
        if isinstance(current, Refusal):
            yield data + event(current.body())
            return
        if job.asked.include_usage:
            data += answer.usage_chunk(current)
        yield data + DONE

    def _model(self) -> dict[str, Any]:
        return {
            "id": self._options.name,
            "object": "model",
            "created": self._created,
            "owned_by": "vlmhyperbench",
            "max_model_len": self._loaded.max_context,
        }
