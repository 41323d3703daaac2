"""Regular expressions of schemas, in an engine whose time is linear in the text for every answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import re2

from vlmhyperbench_sdk.errors import InvalidInput

Finds = Callable[[str], bool]
"""Whether a pattern occurs anywhere in a text."""

_PIECE = re.compile(r"\\u[0-9A-Fa-f]{4}|\\.|.", re.DOTALL)
_ESCAPED = len("\\uFFFF")
_SURROGATES = range(0xD800, 0xE000)
_UNPAIRED = "it holds an unpaired surrogate"
_BLANKS = (
    (0x9, 0xD), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F),
    (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
)  # fmt: skip
"""First and last code points of what ECMA-262 calls white space or a line terminator, in ascending order."""


@lru_cache(maxsize=1024)
def finds(pattern: str) -> Finds:
    r"""Compile a pattern of JSON Schema, which is not anchored.

    RE2 runs it. `\s`, `\S`, `.` and `\uXXXX` have their meaning in ECMA-262; other syntax than RE2's is refused.

    Raises:
        InvalidInput: RE2 cannot run it.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(_translated(pattern).encode(), options)
    except (re2.error, UnicodeEncodeError) as error:
        why = error.args[0]
        reason = why.decode("utf-8", "replace") if isinstance(why, bytes) else _UNPAIRED
        raise _refusal(pattern, reason) from error

    def is_found(text: str) -> bool:
        # Matched as bytes, because RE2 reads UTF-8 and an answer may contain lone surrogates.
        return compiled.search(text.encode("utf-8", "surrogatepass")) is not None

    return is_found


def _translated(pattern: str) -> str:
    """Rewrite syntax to which RE2 gives another meaning than ECMA-262."""
    parts: list[str] = []
    opened: int | None = None  # the part that opened the class we are in
    for piece in _PIECE.findall(pattern):
        part = piece
        if len(piece) == _ESCAPED:
            part = _code_point(piece, pattern)
        elif piece in _CLASSES:
            part = _CLASSES[piece] if opened is not None else f"[{_CLASSES[piece]}]"
        elif opened is None:
            opened = len(parts) if piece == "[" else None
            part = _ANY if piece == "." else piece
        elif piece == "]":
            if "".join(parts[opened:]) in ("[", "[^"):
                raise _refusal(pattern, "its class of characters is empty")
            opened = None
        parts.append(part)
    return "".join(parts)


def _code_point(escape: str, pattern: str) -> str:
    digits = escape.removeprefix("\\u")
    if int(digits, 16) in _SURROGATES:
        raise _refusal(pattern, _UNPAIRED)
    return rf"\x{{{digits}}}"


def _refusal(pattern: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"The pattern {pattern[:60]!r} cannot be run: {why[:100]}.",
        cure="Write it in RE2's syntax, which has neither lookarounds nor backreferences.",
        code="invalid_schema",
    )


def _ranges(bounds: list[tuple[int, int]]) -> str:
    return "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in bounds)


_ANY = r"[^\n\r\x{2028}\x{2029}]"
_CLASSES = {
    r"\s": _ranges([*_BLANKS]),
    r"\S": _ranges(
        [
            (before + 1, after - 1)
            for before, after in zip(
                [-1, *(last for _, last in _BLANKS)], [*(first for first, _ in _BLANKS), 0x110000], strict=True
            )
        ]
    ),
}
