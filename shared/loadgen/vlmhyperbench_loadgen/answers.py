"""Parse one answer and the instants of its bytes into events, text and token counts; pure.

Covers OpenAI chat (and plain) completions, streamed as server-sent events or whole as JSON. An event's instant is
that of the read which brought the end of its last data line, so events of one read share it. What counts as an answer
is defined in `vlmhyperbench_sdk.completions`; the choice that was asked for is the one with index 0.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from vlmhyperbench_loadgen.event_templates import EventTemplate, MatchedEvents, PlainKind, learn_template, match_events
from vlmhyperbench_loadgen.http1 import Body
from vlmhyperbench_loadgen.sse import Events, instants_of
from vlmhyperbench_sdk.completions import (
    CODE,
    BadAnswer,
    ChoiceStream,
    Said,
    as_document,
    cached_tokens,
    hidden_tokens,
    parse_document,
    read_completion,
    usage_counts,
)

EventKind = Literal["content", "reasoning", "tool", "role", "usage"]
TOKEN_KINDS: tuple[EventKind, ...] = ("content", "reasoning", "tool")
_LONG_BYTES = 2048
_MESSAGE_CHARACTERS = 500
_FINISH_CHARACTERS = 64
_WORD_CHARACTERS = 64
CUT = "…"
"""Marks where a server's text was cut, so that a secret that was cut there is still recognised."""
_WORD = re.compile(r"[^\w.-]", re.ASCII)
"""Characters that no word of an error holds."""


@dataclass(slots=True)
class ParsedAnswer:
    """The content of one answer; the lists `event_*` are parallel, in order of arrival."""

    event_ns: list[int] = field(default_factory=list)
    event_tokens: list[int] = field(default_factory=list)
    event_kind: list[EventKind] = field(default_factory=list)
    event_token_source: str | None = None
    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    """Of the prompt's; None where the server does not say."""
    error: str | None = None
    """`code: message` where the answer is an error, or is malformed."""
    is_transient: bool = False
    """A retry may succeed."""


@dataclass(slots=True)
class _Reading:
    """An answer that is being parsed."""

    answer: ParsedAnswer = field(default_factory=ParsedAnswer)
    """Of a stream, `event_ns` are places in the payload until it has ended."""
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    characters: list[int] = field(default_factory=list)
    """Of each token-bearing event."""
    running: list[int | None] = field(default_factory=list)
    """Completion tokens so far, as each token-bearing event states them."""
    hidden: int = 0
    """Completion tokens of reasoning, as the server counts them."""
    choices: ChoiceStream = field(default_factory=ChoiceStream)

    def finish(self) -> ParsedAnswer:
        answer = self.answer
        answer.text = "".join(self.text)
        answer.reasoning = "".join(self.reasoning)
        _count_tokens(answer, self.characters, self.running, 0 if answer.reasoning else self.hidden)
        return answer


def read_stream(body: Body, ends: list[int], times: list[int], *, is_complete: bool) -> ParsedAnswer:
    """Parse server-sent events; read *i* brought the received bytes up to `ends[i]` at `times[i]`."""
    reading = _Reading()
    answer = reading.answer
    is_done = False
    # Templates do not pay for a short answer, and lines that end in CRLF are parsed one by one.
    is_long = len(body.payload) >= _LONG_BYTES and b"\r" not in body.payload
    prefix = b"data: " if b"data: " in body.payload[:_LONG_BYTES] else b"data:"
    template: EventTemplate | None = None
    events = Events(body.payload)
    for data, place in events:
        if data == b"[DONE]":
            is_done = True
            break
        try:
            event = _load(data)
            if event.get("error"):
                answer.error, answer.is_transient = _stated_error(event["error"])
                break
            _add_event(reading, event, place, reading.choices.take(event).get(0))
        except BadAnswer as error:
            answer.error = f"{CODE}: an event: {error}: {_show(data)}"
            break
        if is_long:
            template = learn_template(data, event, prefix) or template
        if template is not None and not reading.choices.have_ended:
            matched = match_events(body.payload, events.at, template)
            _add_matched(reading, matched, template.kind)
            events.at = matched.end
    answer.event_ns = instants_of(answer.event_ns, body, ends, times)
    if answer.error is None and is_complete:
        _check_end(reading, is_done=is_done)
    return reading.finish()


def _check_end(reading: _Reading, *, is_done: bool) -> None:
    answer = reading.answer
    if not is_done and answer.finish_reason is None:
        answer.error, answer.is_transient = "incomplete_stream: it ended without finish_reason and [DONE]", True
        return
    try:
        reading.choices.check_end()
    except BadAnswer as error:
        answer.error = f"{CODE}: {error}"


def read_whole(payload: bytes, at_ns: int) -> ParsedAnswer:
    """Parse an answer that is one JSON document: one event, at the instant when all of it was received."""
    reading = _Reading()
    answer = reading.answer
    try:
        document = _load(payload)
        if document.get("error"):
            answer.error, answer.is_transient = _stated_error(document["error"])
            return answer
        _add_event(reading, document, at_ns, read_completion(document)[0])
    except BadAnswer as error:
        answer.error = f"{CODE}: {error}: {_show(payload)}"
        return answer
    return reading.finish()


def read_refusal(status: int, payload: bytes) -> str:
    """Return in one line the message of an answer with an error status."""
    message: object = None
    stated: object = None
    with suppress(BadAnswer):
        document = _load(payload)
        # SGLang makes the whole document the error, where others have a field `error`.
        stated = document if document.get("object") == "error" else document.get("error")
        message = stated.get("message") if isinstance(stated, dict) else stated
        message = message or document.get("detail") or document.get("message")
    return f"http_{status}: {_limit(message) if isinstance(message, str) else _show(payload)}{_words(stated)}"


def _add_matched(reading: _Reading, matched: MatchedEvents, kind: PlainKind) -> None:
    answer, count = reading.answer, len(matched.texts)
    answer.event_ns.extend(matched.places)
    answer.event_kind.extend([kind] * count)
    answer.event_tokens.extend([0] * count)
    (reading.text if kind == "content" else reading.reasoning).extend(matched.texts)
    reading.characters.extend(map(len, matched.texts))
    reading.running.extend([None] * count)


def _add_event(reading: _Reading, event: dict[str, Any], at: int, delta: Said | None) -> None:
    answer = reading.answer
    counts = usage_counts(event)
    if counts:
        answer.prompt_tokens = counts.get("prompt_tokens", answer.prompt_tokens)
        answer.completion_tokens = counts.get("completion_tokens", answer.completion_tokens)
        answer.cached_tokens = cached_tokens(event)
        reading.hidden = hidden_tokens(event) or 0
    completion = counts.get("completion_tokens")
    kind = _add_delta(reading, delta) if delta is not None else None
    kind = kind or ("usage" if completion is not None else None)
    if kind is None:
        return
    answer.event_ns.append(at)
    answer.event_kind.append(kind)
    answer.event_tokens.append(0)
    if delta is not None and kind in TOKEN_KINDS:
        reading.characters.append(len(delta.text) + len(delta.reasoning) + delta.call_characters)
        reading.running.append(completion)


def _add_delta(reading: _Reading, delta: Said) -> EventKind | None:
    """Add what a delta (or message) holds, and return its kind."""
    if delta.finish_reason is not None:
        # Postgres stores no NUL.
        reason = delta.finish_reason.replace("\0", "\N{REPLACEMENT CHARACTER}")
        reading.answer.finish_reason = _cut(reason, _FINISH_CHARACTERS - 1)
    reading.text.append(delta.text)
    reading.reasoning.append(delta.reasoning)
    if delta.call_characters:
        return "tool"
    if delta.text:
        return "content"
    if delta.reasoning:
        return "reasoning"
    return "role" if delta.has_role else None


def _count_tokens(answer: ParsedAnswer, characters: list[int], running: list[int | None], hidden: int) -> None:
    """Count the tokens of each token-bearing event: by running usage, else the total spread by characters.

    Hidden tokens, which no event bears, count in none: a user waits only between tokens that are sent.
    """
    bearing = [index for index, kind in enumerate(answer.event_kind) if kind in TOKEN_KINDS]
    if answer.completion_tokens is None or not bearing:
        return
    total = max(0, answer.completion_tokens - hidden)
    counted = [count for count in running if count is not None]
    if len(bearing) == 1 and not counted:
        answer.event_tokens[bearing[0]] = total
        answer.event_token_source = "usage" if total == 1 else "estimated"
        return
    # Some servers state 0 or 1 in every event, which is no running count. The last token may bear no text.
    is_running = len(counted) == len(bearing) and counted == sorted(counted)
    moves = is_running and (counted[0] < counted[-1] or counted[-1] == answer.completion_tokens)
    if moves and 2 * counted[-1] >= answer.completion_tokens:
        tokens = [now - before for before, now in zip([min(hidden, counted[0]), *counted], counted, strict=False)]
        answer.event_token_source = "usage"  # noqa: S105
    else:
        tokens = spread(total, characters)
        answer.event_token_source = "usage" if total == len(bearing) else "estimated"
    for index, count in zip(bearing, tokens, strict=True):
        answer.event_tokens[index] = count


def spread(total: int, characters: list[int]) -> list[int]:
    """Spread `total` tokens over events: at least one each if there are enough, the rest by characters."""
    if total == len(characters):
        return [1] * total
    least = 1 if total >= len(characters) else 0
    rest = total - least * len(characters)
    weights = characters if any(characters) else [1] * len(characters)
    whole, seen, given = sum(weights), 0, 0
    tokens = []
    for weight in weights:
        seen += weight
        due = (2 * rest * seen + whole) // (2 * whole)
        tokens.append(least + due - given)
        given = due
    return tokens


def _load(data: bytes) -> dict[str, Any]:
    """Parse a JSON object as `parse_document` does, with a fast path for ordinary ones.

    Raises:
        BadAnswer: it is not a JSON object.
    """
    try:
        return as_document(orjson.loads(data))
    except orjson.JSONDecodeError:
        return parse_document(data).document


def _stated_error(stated: object) -> tuple[str, bool]:
    message: object = stated
    code: object = None
    if isinstance(stated, dict):
        message, code = stated.get("message"), stated.get("code")
    is_transient = not isinstance(code, int) or code == 429 or code >= 500
    text = _limit(message) if isinstance(message, str) else "no message"
    return f"stream_error: {text}{_words(stated)}", is_transient


def _words(stated: object) -> str:
    """Write the code, type and parameter of an error as ` [code=…, type=…, param=…]`; nothing where it has none."""
    if not isinstance(stated, dict):
        return ""
    fields = [(name, stated.get(name)) for name in ("code", "type", "param")]
    words = [f"{name}={_cut(_WORD.sub('_', str(word)), _WORD_CHARACTERS)}" for name, word in fields if _is_word(word)]
    return f" [{', '.join(words)}]" if words else ""


def _is_word(value: object) -> bool:
    return bool(value) and isinstance(value, (str, int)) and not isinstance(value, bool)


def _show(data: bytes) -> str:
    # A character has at most four bytes, so a text that is cut here is cut below too.
    return _limit(data[: 4 * _MESSAGE_CHARACTERS + 4].decode("utf-8", "replace")) or "nothing"


def _limit(text: str) -> str:
    return " ".join(_cut(text, _MESSAGE_CHARACTERS).split())


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + CUT
