"""What of a merged answer can be sent before its end. Pure."""

from __future__ import annotations


class Draft:
    """A merged answer that is still being written: white space around it and reasoning between tags are taken away.

    So nothing is sent from the first `<` on, with which a tag may begin, and no white space before the text after it
    is there; what is left is sent when the answer is whole.
    """

    def __init__(self) -> None:
        self._text = ""
        self._sent = 0

    def take(self, piece: str) -> str:
        """Return what can be sent after this piece has arrived."""
        self._text += piece
        certain = self._text.partition("<")[0].strip()
        new = certain[self._sent :]
        self._sent = len(certain)
        return new
