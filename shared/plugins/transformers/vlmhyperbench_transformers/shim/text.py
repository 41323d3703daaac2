"""Turn tokens into text as they come, and end it before a stop string; nothing that was sent is taken back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_BROKEN = "\ufffd"


class TextStream:
    """The text of one answer.

    Tokens are decoded from the last position at which the text was whole, because a character can need several tokens
    and a token's text can depend on the token before it.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], stops: Sequence[str] = ()) -> None:
        """Create the text.

        Args:
            decode: Decodes token ids.
            stops: Strings before which the text ends.
        """
        self._decode = decode
        self._stops = tuple(stops)
        self._longest = max(map(len, self._stops), default=0)
        self._tokens: list[int] = []
        self._begin = self._read = 0
        self._held = ""
        self.is_stopped = False
        """Whether a stop string came."""

    def add(self, token: int) -> str:
        """Add a token, and return the text that can be sent."""
        self._tokens.append(token)
        before = self._decode(self._tokens[self._begin : self._read])
        text = self._decode(self._tokens[self._begin :])
        if text.endswith(_BROKEN) or len(text) <= len(before):
            return ""
        self._begin, self._read = self._read, len(self._tokens)
        return self._release(text[len(before) :])

    def end(self) -> str:
        """Return the rest of the text; characters that are not whole are replaced as the tokenizer does."""
        if self.is_stopped:
            return ""
        before = self._decode(self._tokens[self._begin : self._read])
        rest = self._decode(self._tokens[self._begin :])[len(before) :]
        self._begin = self._read = len(self._tokens)
        sent = self._release(rest) + self._held
        self._held = ""
        return sent

    def _release(self, text: str) -> str:
        """Return the text up to where a stop string could begin."""
        if self.is_stopped:
            return ""
        self._held += text
        found = [position for stop in self._stops if (position := self._held.find(stop)) >= 0]
        if found:
            self.is_stopped = True
            sent, self._held = self._held[: min(found)], ""
            return sent
        keep = next((size for size in range(min(self._longest - 1, len(self._held)), 0, -1) if self._may_stop(size)), 0)
        sent, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return sent

    def _may_stop(self, size: int) -> bool:
        tail = self._held[-size:]
        return any(stop.startswith(tail) for stop in self._stops)
