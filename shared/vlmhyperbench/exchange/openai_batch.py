"""Read the output of the OpenAI Batch API and compatible servers: JSON Lines with `custom_id` and `response`.

Bodies are those of chat completions, completions and responses (platform.openai.com/docs/api-reference/batch). The
batch's input, if given, provides the questions and the sampling parameters. A request without a line in the output has
failed, and so has a request whose body is no answer by the rules of `vlmhyperbench_sdk.completions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.answers import AnswersFile, ImportedAnswer
from vlmhyperbench.exchange.foreign import (
    asked_in,
    decoding_in,
    foreign_object,
    list_in,
    object_in,
    text_in,
)
from vlmhyperbench.exchange.lines import lines_of
from vlmhyperbench_sdk.completions import CODE, BadAnswer, ChoiceContent, count_choices, read_completion, token_count
from vlmhyperbench_sdk.types import JsonObject, JsonValue

FORMAT = "openai-batch"

_DECODING = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "max_tokens": "max_tokens",
    "stop": "stop",
    "seed": "seed",
    "n": "n",
}
_FINISH = {"function_call": "tool_calls", "max_output_tokens": "length"}


def read_openai_batch(path: Path, *, requests: Path | None = None) -> AnswersFile:
    """Read a batch's output; `requests` is its input.

    Raises:
        NotFound: a file cannot be read.
        InvalidInput: the file has another format; during iteration: a line is malformed.
    """
    asked = _asked(requests) if requests is not None else None
    reader = _Reader(path=path, asked=asked)
    bodies = (_body(row) for _, row in _rows(path))
    body = next((body for body in bodies if body.get("model")), {})
    sent = asked.first if asked else body
    return AnswersFile(
        format=FORMAT,
        tool=None,
        model=text_in(body.get("model")) or text_in(sent.get("model")),
        task=None,
        decoding=decoding_in(sent, _DECODING),
        answers=reader.answers(),
        notes=reader.notes,
    )


@dataclass(slots=True, kw_only=True)
class _Asked:
    first: JsonObject
    """Body of the first request."""
    questions: dict[str, str | None]
    choices: dict[str, int]
    """Number of requested choices, for requests with several."""


@dataclass(slots=True, kw_only=True)
class _Reader:
    path: Path
    asked: _Asked | None
    notes: list[str] = field(default_factory=list)
    models: set[str] = field(default_factory=set)

    def answers(self) -> Iterator[ImportedAnswer]:
        seen: set[str] = set()
        for location, row in _rows(self.path):
            key = _key(row, location)
            seen.add(key)
            yield from self._of(key, row, location)
        for key, question in self.asked.questions.items() if self.asked else ():
            if key not in seen:
                error = "the batch's output has no line for this request"
                yield ImportedAnswer(key=key, question=question, error=error, location=str(self.path))
        if len(self.models) > 1:
            self.notes.append(f"Several models answered: {', '.join(sorted(self.models))}.")

    def _of(self, key: str, row: JsonObject, location: str) -> Iterator[ImportedAnswer]:
        question = None
        if self.asked is not None:
            if key not in self.asked.questions:
                raise InvalidInput(
                    f"{location}: the batch's input has no request {key[:100]!r}.",
                    cure="Give the input of this output.",
                )
            question = self.asked.questions[key]
        failure = _failure(row)
        if failure is not None:
            yield ImportedAnswer(key=key, question=question, error=failure, location=location)
            return
        body = _body(row)
        model = text_in(body.get("model"))
        if model is not None:
            self.models.add(model)
        answered = ImportedAnswer(key=key, question=question, location=location)
        try:
            wanted = self.asked.choices.get(key, 1) if self.asked is not None else count_choices(body)
            yield from _answers(answered, body, wanted)
        except BadAnswer as error:
            yield replace(answered, error=f"{CODE}: {error}")


def _rows(path: Path) -> Iterator[tuple[str, JsonObject]]:
    for no, line in lines_of(path):
        if line.strip():
            yield f"{path}:{no}", foreign_object(line, f"{path}:{no}")


def _key(row: JsonObject, location: str) -> str:
    key = row.get("custom_id")
    if not isinstance(key, str):
        raise InvalidInput(f"{location}: there is no custom_id.", cure="Give the batch's files as they were written.")
    return key


def _body(row: JsonObject) -> JsonObject:
    return object_in(object_in(row.get("response")).get("body"))


def _asked(path: Path) -> _Asked:
    questions: dict[str, str | None] = {}
    choices: dict[str, int] = {}
    first: JsonObject | None = None
    for location, row in _rows(path):
        key, body = _key(row, location), object_in(row.get("body"))
        if not body:
            raise InvalidInput(f"{location}: the request has no body.", cure="Give the batch's input.")
        if key in questions:
            raise InvalidInput(
                f"{location}: the request {key[:100]!r} comes twice.", cure="Give each an id of its own."
            )
        first = first or body
        asked = body.get("messages", body.get("input", body.get("prompt")))
        questions[key] = asked_in(asked)
        if (wanted := token_count(body.get("n")) or 1) > 1:
            choices[key] = wanted
    return _Asked(first=first or {}, questions=questions, choices=choices)


def _failure(row: JsonObject) -> str | None:
    """Return the reason for a failed request, or None."""
    error = object_in(row.get("error"))
    response = object_in(row.get("response"))
    status = response.get("status_code", 200)
    inner = object_in(response.get("body"))
    if not error and (not response or str(status) != "200" or inner.get("error")):
        stated = inner.get("error")
        error = object_in(stated) or (inner if "message" in inner else {})
        if not error and isinstance(stated, str) and stated:
            return stated
        if not error:
            return f"HTTP status {status}" if response else "there is neither a response nor an error"
    if not error:
        return None
    parts = [str(error[name]) for name in ("code", "message") if error.get(name) is not None]
    return ": ".join(parts) or "the request failed"


def _answers(asked: ImportedAnswer, body: JsonObject, wanted: int) -> Iterator[ImportedAnswer]:
    if "data" in body and "choices" not in body:
        raise InvalidInput(
            f"{asked.location}: the body holds no choices.",
            cure="Give a batch of /v1/chat/completions, /v1/completions or /v1/responses.",
        )
    usage = object_in(body.get("usage"))
    completion_tokens = token_count(usage.get("completion_tokens", usage.get("output_tokens")))
    asked = replace(asked, prompt_tokens=token_count(usage.get("prompt_tokens", usage.get("input_tokens"))))
    if body.get("object") == "response" or "output" in body:
        yield _of_response(replace(asked, completion_tokens=completion_tokens), body)
        return
    for index, choice in enumerate(read_completion(body, wanted)):
        # A usage with several choices counts the tokens of all of them.
        tokens = completion_tokens if wanted == 1 else None
        yield _of_choice(replace(asked, repeat=index, completion_tokens=tokens), choice)


def _of_choice(asked: ImportedAnswer, choice: ChoiceContent) -> ImportedAnswer:
    finish = _FINISH.get(choice.finish_reason or "", choice.finish_reason)
    return replace(asked, text=choice.text, reasoning=choice.reasoning or None, finish_reason=finish)


def _of_response(asked: ImportedAnswer, body: JsonObject) -> ImportedAnswer:
    """Read a body of the Responses API: texts of its messages, summaries of its reasoning."""
    status, error = text_in(body.get("status")), object_in(body.get("error"))
    if error or status in {"failed", "cancelled"}:
        return replace(asked, error=text_in(error.get("message")) or f"the response is {status}")
    texts: list[str] = []
    reasoning: list[str] = []
    items = _objects(body.get("output"), "output")
    for item in items:
        if item.get("type") == "message":
            texts += _texts(_objects(item.get("content"), "content"), ("text", "refusal"))
        elif item.get("type") == "reasoning":
            content, summary = list_in(item.get("content")), list_in(item.get("summary"))
            reasoning += _texts(map(object_in, content), ("text",)) or _texts(map(object_in, summary), ("text",))
    if not items and status != "incomplete":
        raise BadAnswer("its output is empty")
    reason = text_in(object_in(body.get("incomplete_details")).get("reason"))
    finish = _FINISH.get(reason or "", reason) if status == "incomplete" else "stop"
    return replace(asked, text="".join(texts), reasoning="\n".join(reasoning) or None, finish_reason=finish)


def _objects(value: JsonValue, name: str) -> list[JsonObject]:
    """Return a value that must be a list of objects.

    Raises:
        BadAnswer: it is not.
    """
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
        raise BadAnswer(f"its {name} is no list of objects")
    return list(map(object_in, value))


def _texts(parts: Iterable[JsonObject], names: tuple[str, ...]) -> list[str]:
    values = [part[name] for part in parts for name in names if part.get(name) is not None]
    if not all(isinstance(value, str) for value in values):
        raise BadAnswer("a text of its output is no text")
    return [str(value) for value in values]
