"""Make text safe to show: characters that control terminals, hide text or reverse it are replaced by escapes."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, bidirectional marks, Unicode line separators and unpaired surrogates."""


def visible(text: str, *, keep: str = "\n\t") -> str:
    r"""Replace every hidden character, except those of `keep`, by its escape: ESC becomes `\x1b`."""
    return HIDDEN.sub(lambda match: match[0] if match[0] in keep else _escaped(match[0]), text)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
