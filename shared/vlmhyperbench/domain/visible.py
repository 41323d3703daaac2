"""What may be shown: characters that a terminal would obey, or that hide or turn text, are shown as what they are."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Controls, marks that turn the line, line separators that no terminal counts, and halves of surrogate pairs."""


def visible(text: str, *, keep: str = "\n\t") -> str:
    r"""Write every hidden character but those of `keep` as its escape: ESC becomes `\x1b`."""
    return HIDDEN.sub(lambda found: found[0] if found[0] in keep else _escaped(found[0]), text)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
