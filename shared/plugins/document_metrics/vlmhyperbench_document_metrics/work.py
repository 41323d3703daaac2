"""Count the work of a comparison in advance, so that its time is bounded for every answer."""

from __future__ import annotations

MAX_MATRIX_PAIRS = 4_000_000
"""Maximum pairs of values in a comparison of two lists: 2,000 items with 2,000."""
MAX_PAIRS = 40_000_000
"""Maximum total of pairs of values; a pair of lists counts as `PAIRS_OF_LISTS`."""
PAIRS_OF_LISTS = 100
MAX_CHAR_PAIRS = 40_000_000_000
"""Maximum product of the characters of compared texts: 200,000 with 200,000."""


class TooLarge(Exception):
    """A comparison of two documents exceeds the limits."""


class Work:
    """The work of a comparison so far."""

    def __init__(self) -> None:
        self._pairs = 0
        self._char_pairs = 0

    def count_pairs(self, pairs: int) -> None:
        """Add a number of pairs of values before they are compared.

        Raises:
            TooLarge: they are too many, alone or with those before.
        """
        self._pairs += pairs
        if self._pairs > MAX_PAIRS or pairs > MAX_MATRIX_PAIRS:
            raise TooLarge

    def count_lists(self, pairs: int) -> None:
        """Add a number of pairs of lists before their items are matched.

        Raises:
            TooLarge: they are too many, alone or with those before.
        """
        self.count_pairs(pairs * PAIRS_OF_LISTS)

    def count_texts(self, true_chars: int, said_chars: int) -> None:
        """Add texts of a number of characters before they are compared pairwise.

        Raises:
            TooLarge: they are too long, alone or with those before.
        """
        self._char_pairs += true_chars * said_chars
        if self._char_pairs > MAX_CHAR_PAIRS:
            raise TooLarge
