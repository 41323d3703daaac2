"""Parse untrusted JSON strictly by RFC 8259; repairs are made only where they are declared.

A duplicate key is refused, because RFC 8259 leaves open which value counts and scores must not depend on that.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Literal, NoReturn, cast

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonValue

MAX_DEPTH = 64
MAX_VALUES = 2_000_000
"""Maximum number of values in one text: a parsed empty list takes thirty times the memory of its brackets."""

Repair = Literal["fence", "first_object"]
"""`fence`: the content of the first code fence. `first_object`: the first balanced object or array in the text."""

_FENCE = re.compile(r"```[ \t]*[A-Za-z0-9_+-]*[ \t]*\r?\n?(.*?)(?:```|\Z)", re.DOTALL)
_STRINGS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NO_BRACKETS = re.compile(r"[^\[\]{}]+")
_LONG_CHARS = 1024 * 1024
"""Shorter texts are parsed without `check_structure`: they need little memory, however they are nested."""
_MAX_EXPONENT = 400
"""Numbers with a larger one are left as they are written, since all their digits would be."""
_STRUCTURE = re.compile(r'\\.|[{}\[\]"]', re.DOTALL)


class NumberText(str):
    """A number in its JSON notation, with all its digits: `12.50`."""

    __slots__ = ()


def parse_json(
    text: str | bytes,
    *,
    what: str = "The text",
    max_depth: int = MAX_DEPTH,
    any_text: bool = False,
    exact: bool = False,
) -> JsonValue:
    """Parse JSON of at most `max_depth` levels; refuse duplicate keys, NaN, infinities, NUL and lone surrogates.

    `any_text` accepts NUL and lone surrogates, which text that is only measured may hold but stored text may not. With
    `exact`, numbers are returned as `NumberText`.

    Raises:
        InvalidInput: the text is not valid; the message begins with `what`.
    """
    try:
        if len(text) > _LONG_CHARS:
            text = decoded(text)
            check_structure(text, what=what, max_depth=max_depth, max_values=MAX_VALUES)
        value = (_EXACT if exact else _DECODER).decode(text if isinstance(text, str) else decoded(text))
    except RecursionError as error:
        raise _too_deep(what) from error
    except ValueError as error:
        raise InvalidInput(f"{what} is not JSON: {json_problem(error)}.", cure="Correct the JSON.") from error
    _check(value, max_depth, what, any_text)
    return cast("JsonValue", value)


def json_problem(error: ValueError) -> str:
    """Return why a text could not be parsed as JSON, with the location in the text where it is known."""
    if isinstance(error, json.JSONDecodeError):
        if not error.doc.strip():
            return "it is empty"
        line = f"line {error.lineno}, " if "\n" in error.doc.strip() else ""
        where = f"{line}column {error.colno}" if error.doc[error.pos :].strip() else "the end"
        return f"{error.msg[:1].lower()}{error.msg[1:].removesuffix(' at')} at {where}"
    if isinstance(error, UnicodeDecodeError):
        return f"it is not {error.encoding.upper()} ({error.reason} at byte {error.start + 1})"
    if str(error).startswith("Exceeds the limit"):  # Python's own sentence, which names a function to call
        return f"a number has more than {sys.get_int_max_str_digits()} digits"
    return str(error)


def _too_deep(what: str) -> InvalidInput:
    return InvalidInput(f"{what} is nested too deeply.", cure="Nest it in fewer levels.")


def decoded(text: str | bytes) -> str:
    """Decode bytes with the encoding that the standard parser detects.

    Raises:
        UnicodeDecodeError: the bytes are not valid text.
    """
    return text if isinstance(text, str) else text.decode(json.detect_encoding(text), "surrogatepass")


def check_structure(text: str, *, what: str, max_depth: int, max_values: int | None = None) -> None:
    """Refuse text that is nested too deeply or holds too many values, before parsing allocates memory for them.

    Raises:
        InvalidInput: a limit is exceeded; the message begins with `what`.
    """
    texts = (text.count('"') - text.count('\\"')) // 2  # a cheap estimate, before strings are removed
    bare = _STRINGS.sub("", text) if max_values is None or texts <= 2 * max_values else "," * (max_values + 1)
    if max_values is not None and bare.count(",") + bare.count("[") + bare.count("{") > max_values:
        raise InvalidInput(f"{what} holds more than {max_values} values.", cure="Make it smaller.")
    brackets = _NO_BRACKETS.sub("", bare)
    for _ in range(max_depth):
        left = brackets.replace("[]", "").replace("{}", "")
        if len(left) == len(brackets):
            break  # no bracket is left, or they do not match, which the parser will report
        brackets = left
    else:
        if "[]" in brackets or "{}" in brackets:
            raise _too_deep(what)


def parse_object(text: str | bytes, *, what: str = "The text", any_text: bool = False) -> dict[str, JsonValue]:
    """Parse JSON whose top-level value is an object; arguments are those of `parse_json`.

    Raises:
        InvalidInput: it is not JSON, or not an object.
    """
    value = parse_json(text, what=what, any_text=any_text)
    if not isinstance(value, dict):
        raise InvalidInput(f"{what} is not a JSON object.", cure='Write one object: {"NAME": VALUE}.')
    return value


def compact_json(
    value: JsonValue, *, number: Callable[[NumberText], str] = str, text: Callable[[str], str] | None = None
) -> str:
    """Serialise JSON with sorted keys and without white space.

    A `NumberText` is written by `number`, or unchanged; what `text` makes of a text stands in its place, keys excepted.
    Lone surrogates are kept, so the text may not be valid Unicode.
    """
    if isinstance(value, NumberText):
        return number(value)
    if isinstance(value, dict):
        members = [f"{_quoted(key)}:{compact_json(value[key], number=number, text=text)}" for key in sorted(value)]
        return "{" + ",".join(members) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join([compact_json(item, number=number, text=text) for item in value]) + "]"
    return _quoted(text(value) if text is not None and isinstance(value, str) else value)


def canonical(value: JsonValue, *, text: Callable[[str], str] | None = None) -> str:
    """Write JSON in its one form: keys in order, no spaces, equal numbers equally, and what `text` makes of texts."""
    return compact_json(value, number=_plain_number, text=text)


def digits(number: Decimal) -> str:
    """Write a number without needless digits: 1.50 and 1.5 are the same."""
    text = format(number, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


@lru_cache(64)  # answers to one question mostly have the same numbers
def _plain_number(text: NumberText) -> str:
    number = Decimal(text)
    return digits(number) if abs(number.adjusted()) < _MAX_EXPONENT else text


def repair_json(text: str, *, opening: Literal["{", "["] = "{") -> tuple[str, tuple[Repair, ...]]:
    """Return the JSON part of an answer, with the declared repairs that were needed to find it.

    Text that is already JSON is returned unchanged and without repairs. No character inside the JSON is ever changed.
    The time is linear in the text's length.
    """
    if _is_json(text):
        return text, ()
    repairs: list[Repair] = []
    fenced = _FENCE.search(text)
    if fenced:
        text = fenced[1]
        repairs.append("fence")
        if _is_json(text):
            return text, tuple(repairs)
    balanced = _first_balanced(text, opening)
    return (text, tuple(repairs)) if balanced is None else (balanced, (*repairs, "first_object"))


def _is_json(text: str) -> bool:
    try:
        parse_json(text, any_text=True)
    except InvalidInput:
        return False
    return True


def _first_balanced(text: str, opening: str) -> str | None:
    """Return the text from the first `opening` bracket to its closing one, ignoring brackets in strings, or None."""
    start = text.find(opening)
    if start < 0:
        return None
    depth, in_string = 0, False
    for token in _STRUCTURE.finditer(text, start):
        if token[0] == '"':
            in_string = not in_string
        elif not in_string:
            depth += (token[0] in "{[") - (token[0] in "}]")
            if depth == 0:
                return text[start : token.end()]
    return None


def unique_members(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    """Build an object from its members; an `object_pairs_hook` for the standard parser.

    Raises:
        ValueError: a key is duplicated.
    """
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key[:100]!r} appears twice")
            seen.add(key)
    return made


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:40]} is out of range")
    return value


def _finite_text(text: str) -> NumberText:
    _finite(text)
    return NumberText(text)


def _whole_text(text: str) -> NumberText:
    int(text)  # refuses more digits than Python's limit
    return NumberText(text)


def _decoder(parse_float: Callable[[str], object], parse_int: Callable[[str], object]) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=unique_members,
        parse_constant=_refuse_constant,
        parse_float=parse_float,
        parse_int=parse_int,
    )


# Made once: `json.loads` and `json.dumps` make one for each call that has options, which takes longer than most texts.
_DECODER = _decoder(_finite, int)
_EXACT = _decoder(_finite_text, _whole_text)
_quoted = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def _check(value: object, depth: int, what: str, any_text: bool) -> None:
    if isinstance(value, str):
        if not any_text:
            _check_text(value, what)
    elif isinstance(value, (list, dict)):
        if depth <= 0:
            raise _too_deep(what)
        if isinstance(value, dict):
            for key in value:
                _check(key, depth, what, any_text)
        for item in value.values() if isinstance(value, dict) else value:
            _check(item, depth - 1, what, any_text)


def _check_text(text: str, what: str) -> None:
    if "\0" in text:
        raise InvalidInput(f"{what} holds a NUL character.", cure="Remove it.")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(f"{what} holds a lone surrogate.", cure="Write well-formed Unicode.") from error
