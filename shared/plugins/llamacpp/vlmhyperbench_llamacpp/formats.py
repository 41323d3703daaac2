"""Hold answers to a format by llguidance, which is compiled into llama.cpp; what it cannot enforce is refused here.

llama.cpp's own translation of a JSON Schema leaves out what it cannot express, such as the digits of a pattern, and it
answers freely where its llguidance refuses a grammar. So each grammar is first compiled in this process, by the version
of llguidance that is compiled into llama.cpp: an answer keeps the whole format, or is not asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Final

from vlmhyperbench_sdk.chat import constraint_of
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonValue

HEAD: Final = "%llguidance {}\n"
"""First line of a grammar for llguidance; llama.cpp reads others by itself, and refuses those that are malformed."""

JSON_STYLE: Final[Mapping[str, JsonValue]] = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}
"""Space in JSON is fixed, because small models repeat it without end."""

_ESCAPED: Final = re.compile(r'["\x00-\x1f]|\\[\\nrtfvaexuU0]')
"""A character of a pattern that JSON escapes by a backslash; this version of llguidance forgets what follows it."""

_VALUES: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords of a schema that hold values, not schemas."""

_MAX_REASON: Final = 300


class _Unenforceable(Exception):
    """What the message names."""


def constrain(body: dict[str, JsonValue]) -> None:
    """Replace the response format of a translated request by a grammar.

    Raises:
        InvalidInput: there is a grammar beside it, or llguidance cannot enforce all of it.
    """
    wanted = constraint_of(body, others=("grammar",))
    own = body.get("grammar")
    if wanted is not None:
        kind = str(wanted["type"])
        body["grammar"] = _checked(partial(_grammar_of, wanted), f"the response format {kind}")
        del body["response_format"]
    elif isinstance(own, str) and own.startswith(HEAD.split(maxsplit=1)[0]):
        _checked(lambda: own, "the grammar")


def _grammar_of(wanted: Mapping[str, JsonValue]) -> str:
    if wanted["type"] == "regex":
        from llguidance import LLMatcher  # a request without a format does without it

        whole = json.loads(LLMatcher.grammar_from_regex(str(wanted["regex"])))
        return f"{HEAD}{whole['grammars'][0]['lark_grammar']}"
    wrapper = wanted.get("json_schema")
    schema = wrapper.get("schema") if isinstance(wrapper, Mapping) else None
    stated = schema if isinstance(schema, Mapping) else {"type": "object"}
    if pattern := next((pattern for pattern in _patterns(stated) if _ESCAPED.search(pattern)), None):
        raise _Unenforceable(f"the pattern {json.dumps(pattern)} has a character that JSON escapes")
    return f"{HEAD}start: %json {json.dumps({'x-guidance': JSON_STYLE, **stated})}"


def _patterns(part: JsonValue) -> Iterator[str]:
    """Yield the patterns of strings and of names in a schema."""
    if isinstance(part, Mapping):
        for keyword, value in part.items():
            if keyword == "pattern" and isinstance(value, str):
                yield value
            elif keyword == "patternProperties" and isinstance(value, Mapping):
                yield from value
            if keyword not in _VALUES:
                yield from _patterns(value)
    elif isinstance(part, (list, tuple)):
        for value in part:
            yield from _patterns(value)


def _checked(make: Callable[[], str], what: str) -> str:
    grammar = ""
    try:
        grammar = make()
        problem = _problem(grammar)
    except _Unenforceable as error:
        problem = str(error)
    except UnicodeEncodeError:
        problem = "it has half of a character"
    except RecursionError:
        problem = "it is nested too deep"
    if problem:
        raise InvalidInput(
            f"llama.cpp cannot enforce {what}: {problem}.",
            cure="Leave that part out, or choose a backend that enforces it.",
            code="unsupported",
        )
    return grammar


@lru_cache(maxsize=256)
def _problem(grammar: str) -> str:
    """Return why llguidance refuses a grammar, in one line; empty if it does not."""
    from llguidance import LLMatcher

    lines = LLMatcher.validate_grammar(grammar).strip().splitlines() or [""]
    first = lines[0].rpartition("failed to compile JSON schema: ")[2]
    reasons = [line.strip() for line in lines[1:] if line.startswith("error: ")]
    return " ".join([first, *reasons])[:_MAX_REASON].rstrip(".:")
