"""Call the function that is evaluated: in this thread, in several threads, or as coroutines; what it raises is data."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from vlmhyperbench.domain.causes import MAX_ERROR, clean
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench_sdk.types import Prompt

Answering = Callable[..., object]
"""Takes the text of a prompt and its images, as encoded bytes, and returns the answer, or a coroutine of it."""
Told = Callable[[int, int], object]
"""Is told how many calls have ended, and of how many."""

NOT_TEXT: Final = "not_text"
"""Code of a call that returned something else than text."""
MAX_CODE: Final = 64
_UNFIT: Final = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An answered question that stands before every question: the text of its prompt, its images, and its answer."""

    prompt: str
    images: tuple[bytes, ...]
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What one call is given."""

    prompt: Prompt
    images: tuple[Path, ...]
    examples: tuple[Example, ...] = ()
    """The same for every call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What one call came to: a text, or the error that counts against the function."""

    text: str | None = None
    code: str | None = None
    """Class of the exception, or `not_text`."""
    error: str | None = None
    duration_s: float


def check_takes(function: Answering, questions: Sequence[Question]) -> None:
    """Check that the function can be given these questions, before it is called.

    Raises:
        InvalidInput: it cannot be called, or a prompt has a system text or examples that it does not take.
    """
    if not callable(function):
        raise InvalidInput(f"A {type(function).__name__} cannot be called.", cure="Give a function of prompt, images.")
    for holds, name, default, is_given in (
        ("a system text", "system", "None", any(question.prompt.system is not None for question in questions)),
        ("examples", "examples", "()", any(question.examples for question in questions)),
    ):
        if is_given and not _takes(function, name):
            raise InvalidInput(
                f"The prompt has {holds}, and {name_of(function)} has no parameter `{name}`.",
                cure=f"Write def answer(prompt, images, *, {name}={default}), or choose another prompt.",
            )


def name_of(function: Answering) -> str:
    """Return the name by which tables and reports show a function."""
    named = getattr(function, "__name__", None) or type(function).__name__
    return str(named)[:200]


def call_all(function: Answering, questions: Sequence[Question], *, concurrency: int, told: Told) -> list[Reply]:
    """Call the function for every question, at most `concurrency` at a time; replies are in the questions' order.

    A plain function is called in the caller's thread if `concurrency` is 1. KeyboardInterrupt and SystemExit are not
    caught.
    """
    if _is_async(function):
        with ThreadPoolExecutor(1) as thread:  # a notebook's own thread has a loop that runs already
            context = contextvars.copy_context()
            return thread.submit(context.run, asyncio.run, _await_all(function, questions, concurrency, told)).result()
    if concurrency == 1:
        return list(_in_turn(function, questions, told))
    with ThreadPoolExecutor(concurrency) as threads:
        calls = [threads.submit(contextvars.copy_context().run, _call, function, question) for question in questions]
        try:
            for done, _ in enumerate(as_completed(calls), 1):
                told(done, len(questions))
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
        return [call.result() for call in calls]


def _in_turn(function: Answering, questions: Sequence[Question], told: Told) -> Iterator[Reply]:
    for done, question in enumerate(questions, 1):
        yield _call(function, question)
        told(done, len(questions))


async def _await_all(function: Answering, questions: Sequence[Question], concurrency: int, told: Told) -> list[Reply]:
    free, done = asyncio.Semaphore(concurrency), 0
    awaiting = cast("Callable[..., Awaitable[object]]", function)

    async def ask(question: Question) -> Reply:
        nonlocal done
        async with free:
            images, began = await asyncio.to_thread(_images, question), time.perf_counter()
            try:
                answer = await awaiting(question.prompt.user, images, **_extras(function, question))
            except Exception as error:  # noqa: BLE001 -- the user's function may raise anything
                reply = _raised(error, began)
            else:
                reply = _returned(answer, began)
        done += 1
        told(done, len(questions))
        return reply

    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(ask(question)) for question in questions]
    return [call.result() for call in calls]


def _call(function: Answering, question: Question) -> Reply:
    images, began = _images(question), time.perf_counter()
    try:
        answer = function(question.prompt.user, images, **_extras(function, question))
    except Exception as error:  # noqa: BLE001 -- the user's function may raise anything
        return _raised(error, began)
    return _returned(answer, began)


def _images(question: Question) -> list[bytes]:
    return [path.read_bytes() for path in question.images]


def _extras(function: Answering, question: Question) -> dict[str, object]:
    extras = {"system": question.prompt.system, "examples": question.examples}
    return {name: value for name, value in extras.items() if _takes(function, name)}


def _takes(function: Answering, name: str) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of a class or a builtin without a signature
        return False
    return any(each.name == name or each.kind is each.VAR_KEYWORD for each in parameters)


def _is_async(function: Answering) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _returned(answer: object, began: float) -> Reply:
    duration_s = time.perf_counter() - began
    if not isinstance(answer, str):
        error = f"{NOT_TEXT}: The function returned {type(answer).__name__}, not text."
        return Reply(code=NOT_TEXT, error=error, duration_s=duration_s)
    return Reply(text=_UNFIT.sub("\N{REPLACEMENT CHARACTER}", answer), duration_s=duration_s)


def _raised(error: Exception, began: float) -> Reply:
    code = type(error).__name__[:MAX_CODE]
    return Reply(
        code=code, error=clean(f"{code}: {_words(error)}", limit=MAX_ERROR), duration_s=time.perf_counter() - began
    )


def _words(error: Exception) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 -- a __str__ of the user's own exception may raise, too
        return f"its text raises {type(broken).__name__}"
