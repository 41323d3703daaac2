"""Read the output of the OpenAI Batch API, which other servers write too: JSON Lines with `custom_id` and `response`.

Bodies are those of chat completions, completions and responses (platform.openai.com/docs/api-reference/batch). The
batch's input, where it is given, says what was asked and how; a request without a line in the output is a failed one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.answers import Answer, AnswersFile
from vlmhyperbench.exchange.foreign import (
    asked_in,
    chat_text,
    count_in,
    decoding_in,
    foreign_object,
    list_in,
    object_in,
    text_in,
)
from vlmhyperbench.exchange.lines import lines_of
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
        InvalidInput: it is of another form; while answers are taken: a line is.
    """
    asked = _asked(requests) if requests is not None else None
    reader = _Reader(path=path, asked=asked)
    body = next((found for _, row in _rows(path) if (found := _body(row)).get("model")), {})
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
    """The first request's body."""
    questions: dict[str, str | None]


@dataclass(slots=True, kw_only=True)
class _Reader:
    path: Path
    asked: _Asked | None
    notes: list[str] = field(default_factory=list)
    models: set[str] = field(default_factory=set)

    def answers(self) -> Iterator[Answer]:
        seen: set[str] = set()
        for place, row in _rows(self.path):
            key = _key(row, place)
            seen.add(key)
            yield from self._of(key, row, place)
        for key, question in self.asked.questions.items() if self.asked else ():
            if key not in seen:
                error = "the batch's output has no line for this request"
                yield Answer(key=key, question=question, error=error, place=str(self.path))
        if len(self.models) > 1:
            self.notes.append(f"Several models answered: {', '.join(sorted(self.models))}.")

    def _of(self, key: str, row: JsonObject, place: str) -> Iterator[Answer]:
        question = None
        if self.asked is not None:
            if key not in self.asked.questions:
                raise InvalidInput(
                    f"{place}: the batch's input has no request {key[:100]!r}.", cure="Give the input of this output."
                )
            question = self.asked.questions[key]
        failure = _failure(row)
        if failure is not None:
            yield Answer(key=key, question=question, error=failure, place=place)
            return
        body = _body(row)
        model = text_in(body.get("model"))
        if model is not None:
            self.models.add(model)
        yield from _answers(Answer(key=key, question=question, place=place), body, place)


def _rows(path: Path) -> Iterator[tuple[str, JsonObject]]:
    for no, line in lines_of(path):
        if line.strip():
            yield f"{path}:{no}", foreign_object(line, f"{path}:{no}")


def _key(row: JsonObject, place: str) -> str:
    key = row.get("custom_id")
    if not isinstance(key, str):
        raise InvalidInput(f"{place}: there is no custom_id.", cure="Give the batch's files as they were written.")
    return key


def _body(row: JsonObject) -> JsonObject:
    return object_in(object_in(row.get("response")).get("body"))


def _asked(path: Path) -> _Asked:
    questions: dict[str, str | None] = {}
    first: JsonObject | None = None
    for place, row in _rows(path):
        key, body = _key(row, place), object_in(row.get("body"))
        if not body:
            raise InvalidInput(f"{place}: the request has no body.", cure="Give the batch's input.")
        if key in questions:
            raise InvalidInput(f"{place}: the request {key[:100]!r} comes twice.", cure="Give each an id of its own.")
        first = first or body
        asked = body.get("messages", body.get("input", body.get("prompt")))
        questions[key] = asked_in(asked)
    return _Asked(first=first or {}, questions=questions)


def _failure(row: JsonObject) -> str | None:
    """Return why a request failed, or None."""
    error = object_in(row.get("error"))
    response = object_in(row.get("response"))
    status = response.get("status_code", 200)
    if not error and (not response or str(status) != "200"):
        inner = object_in(response.get("body"))
        error = object_in(inner.get("error")) or (inner if "message" in inner else {})
        if not error:
            return f"HTTP status {status}" if response else "there is neither a response nor an error"
    if not error:
        return None
    parts = [str(error[name]) for name in ("code", "message") if error.get(name) is not None]
    return ": ".join(parts) or "the request failed"


def _answers(asked: Answer, body: JsonObject, place: str) -> Iterator[Answer]:
    usage = object_in(body.get("usage"))
    said = count_in(usage.get("completion_tokens", usage.get("output_tokens")))
    asked = replace(asked, prompt_tokens=count_in(usage.get("prompt_tokens", usage.get("input_tokens"))))
    if body.get("object") == "response" or "output" in body:
        yield _of_response(replace(asked, completion_tokens=said), body)
        return
    choices = list_in(body.get("choices"))
    if not choices:
        raise InvalidInput(
            f"{place}: the body holds no choices.",
            cure="Give a batch of /v1/chat/completions, /v1/completions or /v1/responses.",
        )
    for no, one in enumerate(choices):
        choice = object_in(one)
        repeat = count_in(choice.get("index", no))
        answer = replace(asked, repeat=no if repeat is None else repeat)
        if len(choices) == 1:
            answer = replace(answer, completion_tokens=said)
        yield _of_choice(answer, choice, place)


def _of_choice(asked: Answer, choice: JsonObject, place: str) -> Answer:
    finish = text_in(choice.get("finish_reason"))
    finish = _FINISH.get(finish or "", finish)
    if "message" in choice:
        message = object_in(choice["message"])
        return replace(
            asked,
            text=chat_text(message.get("content")) or text_in(message.get("refusal")) or "",
            reasoning=text_in(message.get("reasoning_content")) or text_in(message.get("reasoning")),
            finish_reason=finish,
        )
    text = text_in(choice.get("text"))
    if text is None:
        raise InvalidInput(f"{place}: a choice has neither a message nor a text.", cure="Give chat completions.")
    return replace(asked, text=text, finish_reason=finish)


def _of_response(asked: Answer, body: JsonObject) -> Answer:
    """Read a body of the Responses API: texts of its messages, summaries of its reasoning."""
    said: list[str] = []
    thought: list[str] = []
    for one in list_in(body.get("output")):
        item = object_in(one)
        if item.get("type") == "message":
            said += _texts(item.get("content"), ("text", "refusal"))
        elif item.get("type") == "reasoning":
            thought += _texts(item.get("content"), ("text",)) or _texts(item.get("summary"), ("text",))
    asked = replace(asked, reasoning="\n".join(thought) or None)
    status, error = text_in(body.get("status")), object_in(body.get("error"))
    if error or status in {"failed", "cancelled"}:
        return replace(asked, error=text_in(error.get("message")) or f"the response is {status}")
    reason = text_in(object_in(body.get("incomplete_details")).get("reason"))
    finish = _FINISH.get(reason or "", reason) if status == "incomplete" else "stop"
    return replace(asked, text="".join(said), finish_reason=finish)


def _texts(content: JsonValue, names: tuple[str, ...]) -> list[str]:
    parts = [object_in(part) for part in list_in(content)]
    return [text for part in parts for name in names if (text := text_in(part.get(name))) is not None]
