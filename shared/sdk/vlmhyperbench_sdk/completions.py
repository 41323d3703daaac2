"""What counts as an answer in OpenAI's chat completions: the one rule of load generator, gateway and import; pure.

An answer is the choice that was asked for: that with index 0, or with the indexes below `n`. What another choice says,
and what follows a choice's finish_reason, is left out. What breaks the protocol is a `BadAnswer`, never an empty
answer. Counts of usage that cannot be true are unknown. `docs/answers.md` has the table.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Part = Literal["delta", "message"]

CODE = "bad_answer"
"""Code of the error wherever an answer breaks the protocol."""

BOM = b"\xef\xbb\xbf"
"""May stand before a stream or a document, and means nothing."""

MAX_TOKENS = 100_000_000
"""More tokens than any engine's context holds: a larger count is none."""

BROKEN_OFF = frozenset({"abort", "aborted", "cancelled", "error"})
"""What servers give as `finish_reason` where they gave an answer up: vLLM, SGLang and routers of several providers."""

COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_MAX_DIGITS = 20


class BadAnswer(Exception):
    """What came is no answer; the text says why, in a clause."""


class Said(NamedTuple):
    """What a message says, or one delta of it."""

    text: str = ""
    """Content; where there is none, the refusal."""
    reasoning: str = ""
    call_characters: int = 0
    """Length of its tool calls as written; 0: there are none."""
    has_role: bool = False
    finish_reason: str | None = None

    @property
    def bears_tokens(self) -> bool:
        """Whether the model said something with it."""
        return bool(self.text or self.reasoning or self.call_characters)


class ChoiceStream:
    """Follows the choices that were asked for from event to event of a stream."""

    __slots__ = ("_asked", "_begun", "_spoken", "finish_reasons")

    def __init__(self, asked: int = 1) -> None:
        self._asked = asked
        self._begun: set[int] = set()
        self._spoken: set[int] = set()
        self.finish_reasons: dict[int, str] = {}
        """Index of each choice that has ended → why it ended."""

    @property
    def have_ended(self) -> bool:
        """Whether every choice that was asked for has said why it ended."""
        return len(self.finish_reasons) == self._asked

    def take(self, event: Mapping[str, Any]) -> dict[int, Said]:
        """Return what an event says of choices that were asked for and have not ended, by index.

        Raises:
            BadAnswer: it breaks the protocol.
        """
        said: dict[int, Said] = {}
        for index, choice in _asked_choices(event, self._asked).items():
            if index in self.finish_reasons:
                continue
            delta = _part_of(choice, "delta")
            reason = _finish_reason(choice)
            said[index] = _said(delta or {}, reason)
            if delta is not None:
                self._begun.add(index)
            if said[index].bears_tokens:
                self._spoken.add(index)
            if reason is not None:
                self.finish_reasons[index] = reason
        return said

    def check_end(self) -> None:
        """See at the end of a stream that every choice that was asked for has been answered.

        Raises:
            BadAnswer: one never came, or said nothing and not why it ended.
        """
        for index in range(self._asked):
            _check_answered(
                index, index in self._begun, is_empty=index not in self._spoken, reason=self.finish_reasons.get(index)
            )


def read_completion(document: Mapping[str, Any], asked: int = 1) -> list[Said]:
    """Return what each choice that was asked for says in a whole answer, in order of their indexes.

    Raises:
        BadAnswer: it breaks the protocol.
    """
    found = _asked_choices(document, asked)
    answers = []
    for index in range(asked):
        choice = found.get(index)
        message = _part_of(choice, "message") if choice is not None else None
        said = _said(message or {}, _finish_reason(choice)) if choice is not None else Said()
        is_begun = message is not None and (said.bears_tokens or "content" in message)
        _check_answered(index, is_begun, is_empty=not said.bears_tokens, reason=said.finish_reason)
        answers.append(said)
    return answers


def only_asked(document: Mapping[str, Any], indexes: Mapping[int, object] | range) -> dict[str, Any]:
    """Return a document without its other choices, and with null for every count of its usage that is none."""
    chosen = dict(document)
    if isinstance(document.get("choices"), list):
        chosen["choices"] = [choice for index, choice in _indexed(document) if index in indexes]
    unknown = {name: None for name, count in usage_counts(document).items() if count is None}
    if unknown:
        chosen["usage"] = {**document["usage"], **unknown}
    return chosen


def count_choices(document: Mapping[str, Any]) -> int:
    """Return how many choices were asked for, where only the answer tells: those from index 0 on without a gap.

    Raises:
        BadAnswer: it breaks the protocol.
    """
    indexes = {index for index, _ in _indexed(document)}
    count = 0
    while count in indexes:
        count += 1
    return max(count, 1)


def usage_counts(document: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the counts of tokens that a document states, by name; one that cannot be true is None."""
    usage = document.get("usage")
    if not isinstance(usage, dict):
        return {}
    return {name: token_count(usage[name]) for name in COUNTS if usage.get(name) is not None}


def hidden_tokens(document: Mapping[str, Any]) -> int | None:
    """Return how many tokens of reasoning a document's usage states, where it does."""
    usage = document.get("usage")
    details = usage.get("completion_tokens_details") if isinstance(usage, dict) else None
    return token_count(details.get("reasoning_tokens")) if isinstance(details, dict) else None


def cached_tokens(document: Mapping[str, Any]) -> int | None:
    """Return how many of the prompt's tokens a document's usage states to have come from a cache, where it does."""
    usage = document.get("usage")
    details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
    return token_count(details.get("cached_tokens")) if isinstance(details, dict) else None


def token_count(value: object) -> int | None:
    """Return a count of tokens, or None where it cannot be one."""
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else None


class Parsed(NamedTuple):
    """A JSON object that a server sent."""

    document: dict[str, Any]
    is_exact: bool
    """Nothing in it stands for something else."""


def parse_document(data: bytes) -> Parsed:
    """Parse what a server sent as a JSON object.

    What is no Unicode comes with U+FFFD in its place; NaN, infinities and numbers beyond all measure come as null.

    Raises:
        BadAnswer: it is not one JSON object, or nested too deeply to be read.
    """
    data = data.removeprefix(BOM)
    text = data.decode("utf-8", "replace")
    replaced: list[str] = []

    def to_float(digits: str) -> float | None:
        value = float(digits)
        if math.isfinite(value):
            return value
        replaced.append(digits)
        return None

    def to_int(digits: str) -> int | None:
        if len(digits) <= _MAX_DIGITS:
            return int(digits)
        replaced.append(digits)
        return None

    try:
        document = json.loads(text, parse_constant=replaced.append, parse_float=to_float, parse_int=to_int)
        if b"\\ud" in data or b"\\uD" in data:
            # An escape of half a surrogate pair is JSON, and no Unicode.
            written = json.dumps(document, ensure_ascii=False)
            whole = written.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            if whole != written:
                document = json.loads(whole)
                replaced.append(whole)
    except RecursionError:
        raise BadAnswer("it is nested too deeply") from None
    except ValueError:
        raise BadAnswer("it is not JSON") from None
    return Parsed(
        as_document(document), not replaced and ("\N{REPLACEMENT CHARACTER}" not in text or _is_unicode(data))
    )


def as_document(parsed: object) -> dict[str, Any]:
    """Return parsed JSON that is an object.

    Raises:
        BadAnswer: it is none.
    """
    if not isinstance(parsed, dict):
        raise BadAnswer("it is not an object")
    return parsed


def _indexed(document: Mapping[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """Return the choices with their indexes; one without an index has that of its place."""
    choices = document.get("choices")
    if choices is None:
        return []
    if not isinstance(choices, list):
        raise BadAnswer("its choices are no list")
    found: list[tuple[int, dict[str, Any]]] = []
    for place, choice in enumerate(choices):
        if not isinstance(choice, dict):
            raise BadAnswer("a choice is no object")
        index = choice.get("index")
        if index is None:
            index = place
        elif type(index) is not int:
            raise BadAnswer("the index of a choice is no whole number")
        found.append((index, choice))
    return found


def _asked_choices(document: Mapping[str, Any], asked: int) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for index, choice in _indexed(document):
        if index in found:
            raise BadAnswer(f"two choices have the index {index}")
        if 0 <= index < asked:
            found[index] = choice
    return found


def _part_of(choice: Mapping[str, Any], part: Part) -> Mapping[str, Any] | None:
    """Return the message or delta of a choice; of a plain completion, its text as one. None: the choice has neither."""
    found = choice.get(part)
    if found is None:
        text = choice.get("text")
        return None if text is None else {"content": _text(text, "text")}
    if not isinstance(found, dict):
        raise BadAnswer(f"its {part} is no object")
    return found


def _said(part: Mapping[str, Any], reason: str | None) -> Said:
    content = _text(part.get("content"), "content") or _text(part.get("refusal"), "refusal")
    reasoning = part.get("reasoning_content") or part.get("reasoning")
    return Said(
        content,
        # No field of the protocol: what is no text says nothing.
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
    """Return why a choice ended; what is no text, or an empty one, says nothing.

    Raises:
        BadAnswer: the server gave it up, so that what came is a piece of an answer.
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
