"""What of a member's answer is its vote: all of it, a choice, a match of a pattern, or a value of its JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import re2

from vlmhyperbench_pipeline.json_votes import read_json
from vlmhyperbench_pipeline.normalising import plain
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.jsontext import NumberText, canonical
from vlmhyperbench_sdk.types import JsonValue

Extract = Callable[[str], "str | None"]
"""Text of an answer → the vote in it; None abstains."""

EXTRACTS: Final = ("whole", "choice", "regex", "json_pointer")


def extractor(kind: str, *, choices: Sequence[str], pattern: str | None, pointer: str | None) -> Extract | None:
    """Return the function that extracts a vote; None where the whole answer is the vote.

    Raises:
        InvalidInput: what the kind needs is missing or malformed.
    """
    if kind == "choice":
        return _choice(choices)
    if kind == "regex":
        return _match(pattern)
    return _pointed(pointer) if kind == "json_pointer" else None


def _choice(choices: Sequence[str]) -> Extract:
    """Return the only choice that the answer is or names as a word; an answer that names several abstains."""
    known = {plain(choice): choice for choice in choices}
    if len(known) < 2 or len(known) < len(choices) or None in known:
        raise InvalidInput("A vote by choice needs at least two choices that differ.", cure="List them in choices.")
    longest_first = sorted(known, key=lambda choice: -len(choice or ""))
    words = re.compile(rf"(?<!\w)(?:{'|'.join(re.escape(choice or '') for choice in longest_first)})(?!\w)")

    def chosen(text: str) -> str | None:
        key = plain(text)
        if key in known:
            return known[key]
        named = set(words.findall(key or ""))
        return known[named.pop()] if len(named) == 1 else None

    return chosen


def _match(pattern: str | None) -> Extract:
    """Return the first group of the last match, or all of it; by RE2, which needs linear time."""
    if pattern is None:
        raise InvalidInput("A vote by regex needs a pattern.", cure="Write it in pattern.")
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise InvalidInput(f"The pattern {pattern[:100]!r} is not valid: {error}.", cure="Write it for RE2.") from error

    def matched(text: str) -> str | None:
        last = None
        for match in compiled.finditer(text):
            last = match
        if last is None:
            return None
        group = last.group(1) if compiled.groups else last.group(0)
        return str(group) if group is not None else None

    return matched


def _pointed(pointer: str | None) -> Extract:
    """Return the value at a JSON Pointer (RFC 6901) of the JSON in the answer."""
    if pointer is None or (pointer and not pointer.startswith("/")):
        raise InvalidInput("A vote by json_pointer needs a pointer.", cure="Write /NAME/NAME in pointer.")
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]

    def value(text: str) -> str | None:
        parsed = read_json(text)
        return None if parsed is None else _at(parsed[0], parts)

    return value


def _at(value: JsonValue, parts: Sequence[str]) -> str | None:
    for part in parts:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isascii() and part.isdecimal() and int(part[:9]) < len(value):
            value = value[int(part[:9])]
        else:
            return None
    if isinstance(value, str) and not isinstance(value, NumberText):
        return value
    return canonical(value)
