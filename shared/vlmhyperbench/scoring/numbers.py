"""Parse numbers in prose; an expression that is not a single number, such as a date or a range, is unreadable."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import deque
from typing import Final, Literal

from vlmhyperbench.scoring.answers import Unreadable

Decimal = Literal[".", ","]

_SPACES: Final = "\u00a0\u2000-\u200a\u202f\u205f"
_DASHES: Final = "\u2010-\u2015\\-\N{MINUS SIGN}\N{SMALL HYPHEN-MINUS}\N{FULLWIDTH HYPHEN-MINUS}"
_MINUS: Final = frozenset(
    "-\N{HYPHEN}\N{NON-BREAKING HYPHEN}\N{FIGURE DASH}\N{EN DASH}\N{MINUS SIGN}"
    "\N{SMALL HYPHEN-MINUS}\N{FULLWIDTH HYPHEN-MINUS}"
)
"""Dashes that are a minus if they touch a number and nothing precedes them; a longer dash is punctuation."""
_SIGNS: Final = _MINUS | {"", "+"}
_MONEY: Final = "$\u00a2-\u00a5\u058f\u0e3f\u20a0-\u20cf\ufe69\uff04\uffe0\uffe1\uffe5\uffe6"
_PARTS: Final = "\u00bc-\u00be\u2150-\u215f\u2189"  # ½ and its like
_RAISED: Final = "\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u2080-\u2089"
_DIGIT: Final = rf"[\d{_PARTS}{_RAISED}]"
_ATOM: Final = rf"{_DIGIT}+(?:[eE][{_DASHES}+]?\d+(?![^\W_])|[^\W\d_]+\d[^\W_]*)?"
"""Digits with a power of ten; or digits with letters between them, such as `0x1F` and `1920x1080`: no number."""
_WIDE: Final = "\uff0c\uff0e\uff1a\uff07\ufe50\ufe52"  # full-width and small commas, points, colon, apostrophe
_DOTS: Final = "\u00b7\u2022\u2219\u22c5\u30fb"
_SLASHES: Final = "/\u2044\u2215\uff0f"
_GLUE: Final = "|".join(
    (
        rf"[,'\N{{RIGHT SINGLE QUOTATION MARK}}\N{{PRIME}}\u066b\u066c:\N{{RATIO}}_{_DOTS}{_WIDE}{_SPACES}]|_\{{",
        r"\.{1,3}|\u2026",
        rf"[ \t]{{0,3}}[{_DASHES}+~{_SLASHES}\u00b1\u00d7\u00f7\u301c\uff0b\uff5e][ \t]{{0,3}}[{_MONEY}]?",
        rf"\*{{1,2}}[{_DASHES}]?|[ \t][*xX][ \t]",
        rf"[ ]?\^[ ]?[({{]{{0,2}}[ ]?[{_DASHES}+]?|<su[bp]>[{_DASHES}+]?",
        r"\{[,.]\}|\\(?:[^\w\s\\]|[ ])|,\\!|[ ]?\\(?:times|cdot|div|pm|mp|over)[ ]?\{?",
        rf"[ ](?=\d{{3}}(?!\d)|[{_PARTS}]|\d{{1,9}}[{_SLASHES}])",
        r",[ ](?=0\d\d(?!\d))",
    )
)
"""Separators inside an expression that is a number or none: `1,234`, `13.02.2017`, `3 – 5`, `7/10`, `1 000`.

In LaTeX: `12{,}345`, `12\\,345`, `10^{3}`, `3 \\times 4`; a backslash before a mark is an escape of Markdown too.
"""
_TOKEN: Final = re.compile(
    rf"(?P<word>\\(?:[cdt]?frac|sqrt)(?=\d)"
    rf"|[^\W\d_{_PARTS}{_RAISED}]\w*(?:[-'\N{{RIGHT SINGLE QUOTATION MARK}}\u2010\u2011]\w+|(?<=\d)\.\w+)*"
    rf"(?:(?:\^\{{?|(?<=_)\{{|<su[bp]>)[{_DASHES}]?\d+(?:[.,]\d+)*\}}?)?)"
    rf"|(?P<sign>(?:\N{{MINUS SIGN}}[ ]?|[{_DASHES}+\N{{PLUS-MINUS SIGN}}\N{{MINUS-OR-PLUS SIGN}}]{{1,2}})?)"
    rf"(?:(?<=[{_DASHES}+])[A-Z]{{2,3}}[ ]?)?(?:(?P<money>[{_MONEY}])[ ]?(?P<inner>[{_DASHES}+]?))?"
    rf"(?P<number>(?:(?<![\w.,])\.|(?<![\w.,\\]),)?{_ATOM}(?:(?:{_GLUE}){_ATOM})*)(?P<tail>[^\W_]*)"
)
_BOUND_BEFORE: Final = re.compile(
    r"(?:\}[ ]?\{|(?:frac|sqrt)[ ]?[({]?|\^[({]{0,2}|_\{|<su[bp]>|\N{SQUARE ROOT}|\\(?:pm|mp))[ ]?\Z"
)
_BOUND_BEHIND: Final = re.compile(
    rf"[ ]?\}}[ ]?\{{|[ ]?\\[cdt]?frac|\^[({{]{{0,2}}[{_DASHES}]?(?!(?:st|nd|rd|th|o|oC|oF)\b)\w", re.ASCII
)
"""Fractions, roots and powers: `\\frac{7}{10}`, `\\sqrt{2}`, `10^n`; `5^{th}` and degrees (`90^\\circ`) are none."""
_LOOSE_DASH: Final = re.compile(rf"(?P<before>[^ \t\n]?)[ \t]*[{_DASHES}][ \t]+\Z")
_SCALE: Final = re.compile(
    r"[ \t\u00a0]?(?:(?:(?:hundred|thousand|million|billion|trillion|lakh|crore|dozen)s?|mln|mn|mio|bn|and a half"
    r"|millionen|milliarden?|tausend|millones|тыс|тысяч[аи]?|млн|миллион(?:а|ов)?|млрд|миллиард(?:а|ов)?)\b"
    r"|[十百千万萬亿億兆만억천])",
    re.IGNORECASE,
)
"""Words that multiply a number, or add to it."""
_SCALES: Final = frozenset("kKMB")
_MONEY_SCALES: Final = frozenset({"m", "b", "mm", "t", "tn"})
_DENIED: Final = re.compile(r"\b(?:minus|negative)[ \t]+\Z", re.IGNORECASE)
_CLOSERS: Final = ")]}%\N{DEGREE SIGN}"
_MAX_NUMBER_CHARS: Final = 400


def _plain(decimal: Decimal) -> re.Pattern[str]:
    thousands = rf"[{'.' if decimal == ',' else ','}' \N{{RIGHT SINGLE QUOTATION MARK}}]"
    return re.compile(
        rf"(?P<whole>(?!00)[0-9]*|[1-9][0-9]{{0,2}}(?P<mark>{thousands})[0-9]{{3}}(?:(?P=mark)[0-9]{{3}})*)"
        rf"(?:\{decimal}(?P<part>[0-9]+))?(?P<power>[eE][-+]?[0-9]+)?"
    )


_PLAIN: Final = {".": _plain("."), ",": _plain(",")}


def read_number(text: str, *, which: Literal["first", "last"], decimal: Decimal) -> str:
    """Return the first or the last number with its digits unchanged, such as `-1234.50`; linear in the text's length.

    `decimal` is the decimal mark; the other mark, apostrophes and spaces separate thousands.

    Raises:
        Unreadable: there is no number, or the expression is not a single number; no other number is read instead.
    """
    tokens = (token for token in _TOKEN.finditer(text) if token["word"] is None)
    token = next(tokens, None) if which == "first" else next(iter(deque(tokens, maxlen=1)), None)
    if token is None:
        raise Unreadable("no_number")
    number = None if _is_part_of_more(token) else _written(token, decimal)
    if number is None:
        around = text[max(0, token.start() - 4) : token.end() + 8][:40]
        raise Unreadable(f"no_plain_number: {' '.join(around.split())}")
    return number


def _written(token: re.Match[str], decimal: Decimal) -> str | None:
    """Return a token as a plain number; None if it is not a number, or not finite."""
    signs = token["sign"].strip() + (token["inner"] or "")
    if len(token["number"]) > _MAX_NUMBER_CHARS or len(signs) > 1 or signs not in _SIGNS:
        return None
    shown = token["number"].replace("{,}", ",").replace("{.}", ".").replace("\\,", " ")
    plain = _PLAIN[decimal].fullmatch("".join(map(_ascii, shown)))
    if plain is None:
        return None
    whole = plain["whole"].replace(plain["mark"], "") if plain["mark"] else plain["whole"] or "0"
    part = f".{plain['part']}" if plain["part"] else ""
    written = f"{'-' if signs in _MINUS else ''}{whole}{part}{plain['power'] or ''}"
    return written if math.isfinite(float(written)) else None


def _ascii(char: str) -> str:
    """Write digits of any script, spaces of any width and the minus signs in ASCII."""
    if char.isdecimal():
        return str(unicodedata.decimal(char))
    return " " if char.isspace() else "-" if char in _MINUS else char


def _is_part_of_more(token: re.Match[str]) -> bool:
    """Return whether the text around a number changes its value or its sign."""
    text, start, end = token.string, token.start(), token.end()
    before = text[max(0, start - 1) : start]
    if _BOUND_BEFORE.search(text[max(0, start - 9) : start]) or _BOUND_BEHIND.match(text, end):
        return True
    if token["sign"]:
        if before.isalnum() or (before and (before in _CLOSERS or re.match(f"[{_MONEY}]", before))):
            return True  # `5%-10%` is a range
    else:
        dash = _LOOSE_DASH.search(text[max(0, start - 8) : start])
        if dash and not (dash["before"].isalnum() or dash["before"] in f"{_CLOSERS}*_\"'`"):
            return True  # `x = - 5`: a sign or a dash
        if _DENIED.search(text[max(0, start - 12) : start]):
            return True
    if " " in token["number"] and (re.search(r"\d[ ]\Z", text[:start][-2:]) or re.match(r"[ ]\d", text[end : end + 2])):
        return True  # a row of numbers, some of which look like groups of thousands
    if re.match(rf"[{_DASHES}](?:\s|\Z)", text[end : end + 2]):
        return True  # `5-`: a sign after the number
    if token["tail"] in _SCALES or (token["money"] and token["tail"] in _MONEY_SCALES):
        return True
    return _SCALE.match(text, token.start("tail"), end + 16) is not None
