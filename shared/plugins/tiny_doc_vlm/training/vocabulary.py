"""Token ids without a tokenizer: every printable character is a token, so ids are looked up in a table."""

from __future__ import annotations

SPECIAL_TOKENS = (
    "<pad>",
    "<|im_start|>",
    "<end_of_utterance>",
    "<image>",
    "<fake_token_around_image>",
    "<global-img>",
    *(f"<row_{row}_col_{column}>" for row in (1, 2) for column in (1, 2)),
)
PAD, START, END, IMAGE, FAKE, OVERVIEW = range(6)
"""Ids of the first special tokens; END is the end of a turn."""
TOKENS_PER_TILE = 36


def tokens() -> list[str]:
    """Return the whole vocabulary by id: special tokens, bytes, and the one merge, an empty line."""
    return [*SPECIAL_TOKENS, *sorted(_names_of_bytes()), "ĊĊ"]


def _names_of_bytes() -> list[str]:
    """Map each byte to a printable character as GPT-2 does: its own, or else a character from 256 upwards."""
    own = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte) if byte in own else chr(next(others)) for byte in range(256)]


_IDS = {token: number for number, token in enumerate(tokens())}
_NAMES = _names_of_bytes()
EMPTY_LINE = _IDS["ĊĊ"]
LINE_END = _IDS["Ċ"]
SIZE = len(_IDS)


def encode(text: str) -> list[int]:
    """Return the ids of a text without special tokens.

    Raises:
        ValueError: it has an empty line, which is a merge and would be one token.
    """
    if "\n\n" in text:
        raise ValueError("A text with an empty line is not encoded here.")
    return [_IDS[_NAMES[byte]] for byte in text.encode()]


def image_tokens(rows: int, columns: int) -> list[int]:
    """Return the image part of a prompt: each tile after its position, then the overview."""
    ids: list[int] = []
    for row in range(1, rows + 1):
        for column in range(1, columns + 1):
            ids += [FAKE, _IDS[f"<row_{row}_col_{column}>"], *[IMAGE] * TOKENS_PER_TILE]
        ids.append(LINE_END)
    ids[-1] = EMPTY_LINE
    return [*ids, FAKE, OVERVIEW, *[IMAGE] * TOKENS_PER_TILE, FAKE]
