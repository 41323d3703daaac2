"""Parse one answer and the instants of its bytes into events, text and token counts; pure.

Covers OpenAI chat (and plain) completions, streamed as server-sent events or whole as JSON. An event's instant is
that of the read that delivered the end of its last data line, so events of one read share it. What counts as an answer
is defined in `vlmhyperbench_sdk.completions`; the requested choice has index 0.
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
    ChoiceContent,
    ChoiceStream,
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
_NOT_IN_WORDS = re.compile(r"[^\w.-]", re.ASCII)
"""Characters that are replaced in the words of an error."""


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
    """Prompt tokens that the server had cached; None where it does not state them."""
    error: str | None = None
    """`code: message` where the answer is an error, or is malformed."""
    is_transient: bool = False
    """A retry may succeed."""


@dataclass(slots=True)
class _PartialAnswer:
    """An answer while it is parsed."""

    answer: ParsedAnswer = field(default_factory=ParsedAnswer)
    """In a stream, `event_ns` holds offsets in the payload until every event is parsed."""
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    characters: list[int] = field(default_factory=list)
    """Number of characters of each event with tokens."""
    running: list[int | None] = field(default_factory=list)
    """Completion tokens so far, as stated by each event with tokens."""
    hidden: int = 0
    """Completion tokens of reasoning, as counted by the server."""
    choices: ChoiceStream = field(default_factory=ChoiceStream)

    def finish(self) -> ParsedAnswer:
        answer = self.answer
        answer.text = "".join(self.text)
        answer.reasoning = "".join(self.reasoning)
        _count_tokens(answer, self.characters, self.running, 0 if answer.reasoning else self.hidden)
        return answer


def read_stream(body: Body, ends: list[int], times: list[int], *, is_complete: bool) -> ParsedAnswer:
    """Parse server-sent events; read *i* delivered the received bytes up to `ends[i]` at `times[i]`."""
    partial = _PartialAnswer()
    answer = partial.answer
    is_done = False
    # For a short answer, learning a template costs more than it saves. A template has no lines that end in CRLF.
    is_long = len(body.payload) >= _LONG_BYTES and b"\r" not in body.payload
    prefix = b"data: " if is_long and b"data: " in body.payload[:_LONG_BYTES] else b"data:"
    template: EventTemplate | None = None
    events = Events(body.payload)
    for data, end in events:
        if data == b"[DONE]":
            is_done = True
            break
        try:
            event = _load(data)
            if event.get("error"):
                answer.error, answer.is_transient = _stated_error(event["error"])
                break
            _add_event(partial, event, end, partial.choices.take(event).get(0))
        except BadAnswer as error:
            answer.error = f"{CODE}: an event: {error}: {_show(data)}"
            break
        if is_long:
            template = learn_template(data, event, prefix) or template
        if template is not None and not partial.choices.have_ended:
            matched = match_events(body.payload, events.next_offset, template)
            _add_matched(partial, matched, template.kind)
            events.next_offset = matched.next_offset
    answer.event_ns = instants_of(answer.event_ns, body, ends, times)
    if answer.error is None and is_complete:
        _check_end(partial, is_done=is_done)
    return partial.finish()


def _check_end(partial: _PartialAnswer, *, is_done: bool) -> None:
    answer = partial.answer
    if not is_done and answer.finish_reason is None:
        answer.error, answer.is_transient = "incomplete_stream: it ended without finish_reason and [DONE]", True
        return
    try:
        partial.choices.check_end()
    except BadAnswer as error:
        answer.error = f"{CODE}: {error}"


def read_whole(payload: bytes, at_ns: int) -> ParsedAnswer:
    """Parse an answer that is one JSON document: one event, at the instant when the whole document was received."""
    partial = _PartialAnswer()
    answer = partial.answer
    try:
        document = _load(payload)
        if document.get("error"):
            answer.error, answer.is_transient = _stated_error(document["error"])
            return answer
        _add_event(partial, document, at_ns, read_completion(document)[0])
    except BadAnswer as error:
        answer.error = f"{CODE}: {error}: {_show(payload)}"
        return answer
    return partial.finish()


def read_refusal(status: int, payload: bytes) -> str:
    """Return the message of an answer with an error status, in one line."""
    message: object = None
    stated: object = None
    with suppress(BadAnswer):
        document = _load(payload)
        # In SGLang's answers the whole document is the error; other servers have a field `error`.
        stated = document if document.get("object") == "error" else document.get("error")
        message = stated.get("message") if isinstance(stated, dict) else stated
        message = message or document.get("detail") or document.get("message")
    return f"http_{status}: {_limit(message) if isinstance(message, str) else _show(payload)}{_words(stated)}"


def _add_matched(partial: _PartialAnswer, matched: MatchedEvents, kind: PlainKind) -> None:
    answer, count = partial.answer, len(matched.texts)
    answer.event_ns.extend(matched.line_ends)
    answer.event_kind.extend([kind] * count)
    answer.event_tokens.extend([0] * count)
    (partial.text if kind == "content" else partial.reasoning).extend(matched.texts)
    partial.characters.extend(map(len, matched.texts))
    partial.running.extend([None] * count)


def _add_event(partial: _PartialAnswer, event: dict[str, Any], at: int, delta: ChoiceContent | None) -> None:
    """Add an event; `at` is its instant, or the offset that the instant is found by later."""
    answer = partial.answer
    completion: int | None = None
    if counts := usage_counts(event):
        completion = counts.get("completion_tokens")
        answer.prompt_tokens = counts.get("prompt_tokens", answer.prompt_tokens)
        answer.completion_tokens = counts.get("completion_tokens", answer.completion_tokens)
        answer.cached_tokens = cached_tokens(event)
        partial.hidden = hidden_tokens(event) or 0
    kind = _add_delta(partial, delta) if delta is not None else None
    kind = kind or ("usage" if completion is not None else None)
    if kind is None:
        return
    answer.event_ns.append(at)
    answer.event_kind.append(kind)
    answer.event_tokens.append(0)
    if delta is not None and kind in TOKEN_KINDS:
        partial.characters.append(len(delta.text) + len(delta.reasoning) + delta.call_characters)
        partial.running.append(completion)


def _add_delta(partial: _PartialAnswer, delta: ChoiceContent) -> EventKind | None:
    """Add the content of a delta (or message), and return its kind."""
    if delta.finish_reason is not None:
        # Postgres stores no NUL.
        reason = delta.finish_reason.replace("\0", "\N{REPLACEMENT CHARACTER}")
        partial.answer.finish_reason = _cut(reason, _FINISH_CHARACTERS - 1)
    partial.text.append(delta.text)
    partial.reasoning.append(delta.reasoning)
    if delta.call_characters:
        return "tool"
    if delta.text:
        return "content"
    if delta.reasoning:
        return "reasoning"
    return "role" if delta.has_role else None


def _count_tokens(answer: ParsedAnswer, characters: list[int], running: list[int | None], hidden: int) -> None:
    """Count the tokens of each event that has tokens: by running usage, else by spreading the total over characters.

    Hidden tokens are not sent, so they count in no event: a user waits only between tokens that are sent.
    """
    token_events = [index for index, kind in enumerate(answer.event_kind) if kind in TOKEN_KINDS]
    if answer.completion_tokens is None or not token_events:
        return
    total = max(0, answer.completion_tokens - hidden)
    counted = [count for count in running if count is not None]
    if len(token_events) == 1 and not counted:
        answer.event_tokens[token_events[0]] = total
        answer.event_token_source = "usage" if total == 1 else "estimated"
        return
    # Some servers state 0 or 1 in every event, which is no running count. The last token may have no text.
    is_running = len(counted) == len(token_events) and counted == sorted(counted)
    is_increasing = is_running and (counted[0] < counted[-1] or counted[-1] == answer.completion_tokens)
    if is_increasing and 2 * counted[-1] >= answer.completion_tokens:
        tokens = [now - before for before, now in zip([min(hidden, counted[0]), *counted], counted, strict=False)]
        answer.event_token_source = "usage"  # noqa: S105 -- where the counts come from, not a password
    else:
        tokens = spread(total, characters)
        answer.event_token_source = "usage" if total == len(token_events) else "estimated"
    for index, count in zip(token_events, tokens, strict=True):
        answer.event_tokens[index] = count


def spread(total: int, characters: list[int]) -> list[int]:
    """Spread `total` tokens over events: one for each event if there are enough, the rest by characters."""
    if total == len(characters):
        return [1] * total
    min_tokens = 1 if total >= len(characters) else 0
    rest = total - min_tokens * len(characters)
    weights = characters if any(characters) else [1] * len(characters)
    total_weight, weight_so_far, spread_before = sum(weights), 0, 0
    tokens = []
    for weight in weights:
        weight_so_far += weight
        # The rest that belongs to all events up to this one, rounded: so the sum is exact.
        spread_so_far = (2 * rest * weight_so_far + total_weight) // (2 * total_weight)
        tokens.append(min_tokens + spread_so_far - spread_before)
        spread_before = spread_so_far
    return tokens


def _load(data: bytes) -> dict[str, Any]:
    """Parse a JSON object as `parse_document` does, by orjson wherever it accepts the bytes.

    Raises:
        BadAnswer: the bytes are not a JSON object.
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
    """Write the code, type and parameter of an error as ` [code=…, type=…, param=…]`; an empty text without them."""
    if not isinstance(stated, dict):
        return ""
    fields = [(name, stated.get(name)) for name in ("code", "type", "param")]
    words = [
        f"{name}={_cut(_NOT_IN_WORDS.sub('_', str(word)), _WORD_CHARACTERS)}" for name, word in fields if _is_word(word)
    ]
    return f" [{', '.join(words)}]" if words else ""


def _is_word(value: object) -> bool:
    return bool(value) and isinstance(value, (str, int)) and not isinstance(value, bool)


def _show(data: bytes) -> str:
    # A character has up to four bytes, so a text that is cut here is longer than the limit and is cut there too.
    return _limit(data[: 4 * _MESSAGE_CHARACTERS + 4].decode("utf-8", "replace")) or "nothing"


def _limit(text: str) -> str:
    return " ".join(_cut(text, _MESSAGE_CHARACTERS).split())


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + CUT
