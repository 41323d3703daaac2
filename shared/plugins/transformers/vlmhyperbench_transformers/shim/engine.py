"""The thread that decodes: requests join and leave between two steps."""

from __future__ import annotations

import gc
import os
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from vlmhyperbench_transformers.shim.answers import Piece, Usage
from vlmhyperbench_transformers.shim.asking import Asked
from vlmhyperbench_transformers.shim.choices import Choice
from vlmhyperbench_transformers.shim.constraints import Constraint
from vlmhyperbench_transformers.shim.decoding import Decoder, StepFailed
from vlmhyperbench_transformers.shim.loading import Loaded
from vlmhyperbench_transformers.shim.refusal import Refusal, out_of_memory, says_out_of_memory

Event = Piece | Usage | Refusal
"""Pieces come first; a usage or a refusal is the last event of a request."""


@dataclass(eq=False, kw_only=True)
class Job:
    """A request with its prompt."""

    asked: Asked
    inputs: Mapping[str, Any]
    prompt: Sequence[int]
    max_tokens: int
    constraint: Constraint | None
    is_cancelled: bool = False
    is_over: bool = False
    choices: list[Choice] = field(default_factory=list)


class Engine:
    """Decodes at most `max_batch` choices at a time; the requests wait in the order in which they came."""

    def __init__(self, loaded: Loaded, max_batch: int, post: Callable[[list[tuple[Job, Event]]], None]) -> None:
        """Create the engine.

        Args:
            loaded: The model.
            max_batch: Choices that are decoded together.
            post: Takes the events of a step; it is called in the engine's thread.
        """
        self._loaded, self._max_batch, self._post = loaded, max_batch, post
        self._decoder = Decoder(loaded, max_batch)
        self._running: list[Job] = []
        self._events: list[tuple[Job, Event]] = []
        self._waiting: deque[Job] = deque()
        self._change = threading.Condition()

    def start(self) -> None:
        """Start the thread, which ends with the process."""
        threading.Thread(target=self._run, name="engine", daemon=True).start()

    def submit(self, job: Job) -> None:
        """Let a request wait for its place."""
        with self._change:
            self._waiting.append(job)
            self._change.notify()

    def cancel(self, job: Job) -> None:
        """Drop a request; its place is free before the next step."""
        with self._change:
            job.is_cancelled = True
            self._change.notify()

    def _run(self) -> None:
        try:
            with torch.inference_mode():
                while True:
                    self._drop_cancelled()
                    while job := self._next():
                        self._begin(job)
                        self._hand_on()
                    if self._running:
                        self._step()
                    self._hand_on()
        except BaseException:  # noqa: BLE001 -- nothing is served without this thread, so the process ends with the reason
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)

    def _next(self) -> Job | None:
        """Return the next request if there is room for it; wait only while nothing is running."""
        with self._change:
            while True:
                while self._waiting and self._waiting[0].is_cancelled:
                    self._waiting.popleft()
                busy = len(self._decoder.choices)
                if self._waiting and busy + self._waiting[0].asked.n <= self._max_batch:
                    return self._waiting.popleft()
                if self._running:
                    return None
                self._change.wait()

    def _begin(self, job: Job) -> None:
        """Run the prompt of a request, choose the first token of each choice, and let them join."""
        self._running.append(job)
        try:
            prefilled = self._decoder.prefill(job.inputs)
            constraints = [job.constraint.copy() if job.constraint else None for _ in range(job.asked.n)]
            job.choices = [
                Choice(
                    self._loaded,
                    job.asked,
                    index=index,
                    prompt=job.prompt,
                    max_tokens=job.max_tokens,
                    constraint=constraint,
                )
                for index, constraint in enumerate(constraints)
            ]
            for choice in job.choices:
                token, entry = choice.sampler.choose(prefilled.logits, choice.tokens)
                self._events.append((job, choice.add(token, entry)))
            self._decoder.join(prefilled, [choice for choice in job.choices if not choice.is_finished])
        except Exception as error:  # noqa: BLE001 -- a model's code raises anything for inputs that it does not take
            self._end(job, _refusal(error))
        else:
            if all(choice.is_finished for choice in job.choices):
                self._end(job, None)

    def _step(self) -> None:
        try:
            for choices, logits in self._decoder.step():
                self._take(choices, logits)
        except StepFailed as failure:
            error = failure.__cause__ or failure
            jobs = [job for job in self._running if any(choice in failure.choices for choice in job.choices)]
            if failure.is_repeatable and says_out_of_memory(error):
                jobs = jobs[-1:]  # the youngest makes room for the others
            for job in jobs:
                self._end(job, _refusal(error))

    def _take(self, choices: Sequence[Choice], logits: torch.Tensor) -> None:
        """Choose the next token of each answer from its logits."""
        owners = {choice: job for job in self._running for choice in job.choices}
        best = logits.argmax(-1).tolist() if any(choice.sampler.is_plain for choice in choices) else []
        for row, choice in enumerate(choices):
            job = owners[choice]
            if job.is_over:
                continue
            try:
                if choice.sampler.is_plain:
                    token, entry = best[row], None
                else:
                    token, entry = choice.sampler.choose(logits[row], choice.tokens)
                self._events.append((job, choice.add(token, entry)))
            except Exception as error:  # noqa: BLE001 -- processors of logits raise anything, and memory may run out
                self._end(job, _refusal(error))
                continue
            if choice.is_finished:
                self._decoder.leave(choice)
            if all(other.is_finished for other in job.choices):
                self._end(job, None)

    def _drop_cancelled(self) -> None:
        for job in [job for job in self._running if job.is_cancelled]:
            self._end(job, None)

    def _end(self, job: Job, refusal: Refusal | None) -> None:
        """End a request: with its usage, or with the reason why it breaks off."""
        active = set(self._decoder.choices)
        for choice in job.choices:
            if choice in active:
                self._decoder.leave(choice)
        job.is_over = True
        self._running.remove(job)
        generated = sum(choice.generated for choice in job.choices)
        self._events.append((job, refusal or Usage(prompt=len(job.prompt), completion=generated)))
        job.inputs = {}

    def _hand_on(self) -> None:
        if self._events:
            self._post(self._events)
            self._events = []


def _refusal(error: BaseException) -> Refusal:
    """Return what a client is told of an error; one that leaves the device unusable ends the process."""
    if isinstance(error, Refusal):
        return error
    if says_out_of_memory(error):
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return out_of_memory(str(error) or type(error).__name__)
    if "CUDA error" in str(error):
        raise error
    traceback.print_exception(error)
    return Refusal(500, "engine_error", f"The model failed: {type(error).__name__}: {str(error)[:500]}")
