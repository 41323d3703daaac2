"""Rules for parsing OpenAI chat completions, shared by load generator, gateway and import; no I/O.

The answer is the requested choice: index 0, or all indexes below `n`. Other choices, and whatever follows a choice's
finish_reason, are ignored. A violation of the protocol is a `BadAnswer`, never an empty answer. Impossible token counts
in usage are treated as unknown. `docs/answers.md` has the table.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, Never

Part = Literal["delta", "message"]

CODE = "bad_answer"
"""Error code of answers that violate the protocol."""

BOM = b"\xef\xbb\xbf"
"""Byte order mark, ignored at the start of a stream or a document."""

MAX_TOKENS = 100_000_000
"""Maximum plausible token count, above every engine's context; larger counts are treated as unknown."""

BROKEN_OFF = frozenset({"abort", "aborted", "cancelled", "error"})
"""Values of `finish_reason` for aborted answers, as sent by vLLM, SGLang and routers of several providers."""

COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_MAX_DIGITS = 20


class BadAnswer(Exception):
    """The response violates the protocol; the text states the reason as a clause."""


class ChoiceContent(NamedTuple):
    """The content of a message, or of one delta of it."""

    text: str = ""
    """Content, or the refusal if there is no content."""
    reasoning: str = ""
    call_characters: int = 0
    """Length of its tool calls as text, in characters; 0 without tool calls."""
    has_role: bool = False
    finish_reason: str | None = None

    @property
    def bears_tokens(self) -> bool:
        """Whether it contains generated text, reasoning or tool calls."""
        return bool(self.text or self.reasoning or self.call_characters)


class ChoiceStream:
    """Tracks the requested choices over the events of a stream."""

    __slots__ = ("_asked", "_begun", "_spoken", "finish_reasons")

    def __init__(self, asked: int = 1) -> None:
        self._asked = asked
        self._begun: set[int] = set()
        self._spoken: set[int] = set()
        self.finish_reasons: dict[int, str] = {}
        """Index of each finished choice → its finish_reason."""

    @property
    def have_ended(self) -> bool:
        """Whether every requested choice has a finish_reason."""
        return len(self.finish_reasons) == self._asked

    def take(self, event: Mapping[str, Any]) -> dict[int, ChoiceContent]:
        """Return the content of an event for requested choices that have not finished, by index.

        Raises:
            BadAnswer: the event violates the protocol.
        """
        contents: dict[int, ChoiceContent] = {}
        for index, choice in _asked_choices(event, self._asked).items():
            if index in self.finish_reasons:
                continue
            delta = _part_of(choice, "delta")
            reason = _finish_reason(choice)
            contents[index] = _content_of(delta or {}, reason)
            if delta is not None:
                self._begun.add(index)
            if contents[index].bears_tokens:
                self._spoken.add(index)
            if reason is not None:
                self.finish_reasons[index] = reason
        return contents

    def check_end(self) -> None:
        """Check at the end of a stream that every requested choice was answered.

        Raises:
            BadAnswer: a choice is missing, or is empty without a finish_reason.
        """
        for index in range(self._asked):
            _check_answered(
                index, index in self._begun, is_empty=index not in self._spoken, reason=self.finish_reasons.get(index)
            )


def read_completion(document: Mapping[str, Any], asked: int = 1) -> list[ChoiceContent]:
    """Return the content of each requested choice in a non-streamed response, ordered by index.

    Raises:
        BadAnswer: the response violates the protocol.
    """
    choices = _asked_choices(document, asked)
    answers = []
    for index in range(asked):
        choice = choices.get(index)
        message = _part_of(choice, "message") if choice is not None else None
        content = _content_of(message or {}, _finish_reason(choice)) if choice is not None else ChoiceContent()
        is_begun = message is not None and (content.bears_tokens or "content" in message)
        _check_answered(index, is_begun, is_empty=not content.bears_tokens, reason=content.finish_reason)
        answers.append(content)
    return answers


def only_asked(document: Mapping[str, Any], indexes: Mapping[int, object] | range) -> dict[str, Any]:
    """Return a copy with only the choices in `indexes`, and with null for every impossible token count in usage."""
    chosen = dict(document)
    if isinstance(document.get("choices"), list):
        chosen["choices"] = [choice for index, choice in _indexed(document) if index in indexes]
    unknown = {name: None for name, count in usage_counts(document).items() if count is None}
    if unknown:
        chosen["usage"] = {**document["usage"], **unknown}
    return chosen


def count_choices(document: Mapping[str, Any]) -> int:
    """Return the number of requested choices, inferred from a response: consecutive indexes from 0 on, at least 1.

    Raises:
        BadAnswer: the response violates the protocol.
    """
    indexes = {index for index, _ in _indexed(document)}
    count = 0
    while count in indexes:
        count += 1
    return max(count, 1)


def usage_counts(document: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the token counts of a document's usage, by name; None for an impossible count."""
    usage = document.get("usage")
    if not isinstance(usage, dict):
        return {}
    return {name: token_count(usage[name]) for name in COUNTS if usage.get(name) is not None}


def hidden_tokens(document: Mapping[str, Any]) -> int | None:
    """Return the number of reasoning tokens in a document's usage, or None."""
    usage = document.get("usage")
    details = usage.get("completion_tokens_details") if isinstance(usage, dict) else None
    return token_count(details.get("reasoning_tokens")) if isinstance(details, dict) else None


def cached_tokens(document: Mapping[str, Any]) -> int | None:
    """Return the number of cached prompt tokens in a document's usage, or None."""
    usage = document.get("usage")
    details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
    return token_count(details.get("cached_tokens")) if isinstance(details, dict) else None


def token_count(value: object) -> int | None:
    """Return a token count, or None if the value cannot be one."""
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else None


class Parsed(NamedTuple):
    """A JSON object that a server sent."""

    document: dict[str, Any]
    is_exact: bool
    """Whether no part of the document was replaced while parsing."""


def parse_document(data: bytes) -> Parsed:
    """Parse a server's response as a JSON object.

    Invalid Unicode is replaced by U+FFFD; NaN, infinities, numbers out of range and integers of more than 20 characters
    become null.

    Raises:
        BadAnswer: it is not one JSON object, or nested too deeply to be parsed.
    """
    data = data.removeprefix(BOM)
    text = data.decode("utf-8", "replace")
    is_exact = "\N{REPLACEMENT CHARACTER}" not in text or _is_unicode(data)
    try:
        try:
            document = _EXACT.decode(text)
        except _ImpossibleNumber:
            document, is_exact = _LENIENT.decode(text), False
        if b"\\ud" in data or b"\\uD" in data:
            # An escaped lone surrogate is valid JSON, but not valid Unicode.
            written = json.dumps(document, ensure_ascii=False)
            whole = written.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            if whole != written:
                document, is_exact = json.loads(whole), False
    except RecursionError:
        raise BadAnswer("it is nested too deeply") from None
    except ValueError:
        raise BadAnswer("it is not JSON") from None
    return Parsed(as_document(document), is_exact)


class _ImpossibleNumber(Exception):
    """A number that becomes null."""


def _exact_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise _ImpossibleNumber
    return int(digits)


def _exact_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _ImpossibleNumber
    return value


def _or_null(read: Callable[[str], float]) -> Callable[[str], float | None]:
    def read_or_null(digits: str) -> float | None:
        try:
            return read(digits)
        except _ImpossibleNumber:
            return None

    return read_or_null


def _refuse(_: str) -> Never:
    raise _ImpossibleNumber


# Built once: an event of a stream takes as long to parse as a decoder takes to be built.
_EXACT = json.JSONDecoder(parse_constant=_refuse, parse_float=_exact_float, parse_int=_exact_int)
_LENIENT = json.JSONDecoder(
    parse_constant=lambda _: None, parse_float=_or_null(_exact_float), parse_int=_or_null(_exact_int)
)


def as_document(parsed: object) -> dict[str, Any]:
    """Return parsed JSON, which must be an object.

    Raises:
        BadAnswer: it is not an object.
    """
    if not isinstance(parsed, dict):
        raise BadAnswer("it is not an object")
    return parsed


def _indexed(document: Mapping[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """Return the choices with their indexes; a choice without an index gets its position in the list."""
    choices = document.get("choices")
    if choices is None:
        return []
    if not isinstance(choices, list):
        raise BadAnswer("its choices are no list")
    indexed: list[tuple[int, dict[str, Any]]] = []
    for position, choice in enumerate(choices):
        if not isinstance(choice, dict):
            raise BadAnswer("a choice is no object")
        index = choice.get("index")
        if index is None:
            index = position
        elif type(index) is not int:
            raise BadAnswer("the index of a choice is no whole number")
        indexed.append((index, choice))
    return indexed


def _asked_choices(document: Mapping[str, Any], asked: int) -> dict[int, dict[str, Any]]:
    chosen: dict[int, dict[str, Any]] = {}
    for index, choice in _indexed(document):
        if index in chosen:
            raise BadAnswer(f"two choices have the index {index}")
        if 0 <= index < asked:
            chosen[index] = choice
    return chosen


def _part_of(choice: Mapping[str, Any], part: Part) -> Mapping[str, Any] | None:
    """Return the message or delta of a choice, or the text of a plain completion in that form; None without either."""
    content = choice.get(part)
    if content is None:
        text = choice.get("text")
        return None if text is None else {"content": _text(text, "text")}
    if not isinstance(content, dict):
        raise BadAnswer(f"its {part} is no object")
    return content


def _content_of(part: Mapping[str, Any], reason: str | None) -> ChoiceContent:
    content = _text(part.get("content"), "content") or _text(part.get("refusal"), "refusal")
    reasoning = part.get("reasoning_content") or part.get("reasoning")
    return ChoiceContent(
        content,
        # The field is not part of the protocol, so a value that is not text is ignored.
        reasoning if isinstance(reasoning, str) else "",
        _call_characters(part),
        bool(part.get("role")),
        reason,
    )


def _text(value: object, name: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadAnswer(f"its {name} is no text")
    return value


def _call_characters(part: Mapping[str, Any]) -> int:
    calls, call = part.get("tool_calls"), part.get("function_call")
    if calls is None and call is None:
        return 0
    if not isinstance(calls, (list, type(None))) or not all(isinstance(item, dict) for item in calls or ()):
        raise BadAnswer("its tool_calls are no list of objects")
    if not isinstance(call, (dict, type(None))):
        raise BadAnswer("its function_call is no object")
    return len(str(calls or call)) if calls or call else 0


def _finish_reason(choice: Mapping[str, Any]) -> str | None:
    """Return the finish_reason of a choice; None if it is not text or empty.

    Raises:
        BadAnswer: the server aborted the answer, so that it is incomplete.
    """
    reason = choice.get("finish_reason")
    if not isinstance(reason, str) or not reason:
        return None
    if reason.lower() in BROKEN_OFF:
        raise BadAnswer(f"the server broke it off, with the finish_reason {reason.lower()}")
    return reason


def _check_answered(index: int, is_begun: bool, *, is_empty: bool, reason: str | None) -> None:
    if not is_begun:
        raise BadAnswer(f"there is no choice {index}, or it says nothing")
    if is_empty and reason is None:
        raise BadAnswer(f"choice {index} is empty and has no finish_reason")


def _is_unicode(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
