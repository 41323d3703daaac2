"""Count the work of a comparison before it is done, so that no answer takes more time than the bounds allow."""

from __future__ import annotations

MAX_MATRIX_PAIRS = 4_000_000
"""Pairs of values in one comparison of two lists: 2,000 items with 2,000."""
MAX_PAIRS = 40_000_000
"""Pairs of values in all; a pair of lists counts as `PAIRS_OF_LISTS`."""
PAIRS_OF_LISTS = 100
MAX_CHAR_PAIRS = 40_000_000_000
"""Characters of texts times characters of what they are compared with: 200,000 with 200,000."""


class TooLarge(Exception):
    """Two documents take more work to compare than a metric allows."""


class Work:
    """What a comparison has cost so far."""

    def __init__(self) -> None:
        self._pairs = 0
        self._char_pairs = 0

    def count_pairs(self, pairs: int) -> None:
        """Announce that so many pairs of values will be compared.

        Raises:
            TooLarge: they are too many, alone or with those before.
        """
        self._pairs += pairs
        if self._pairs > MAX_PAIRS or pairs > MAX_MATRIX_PAIRS:
            raise TooLarge

    def count_lists(self, pairs: int) -> None:
        """Announce that the items of so many pairs of lists will be matched.

        Raises:
            TooLarge: they are too many, alone or with those before.
        """
        self.count_pairs(pairs * PAIRS_OF_LISTS)

    def count_texts(self, true_chars: int, said_chars: int) -> None:
        """Announce that texts of so many characters will be compared, each with each.

        Raises:
            TooLarge: they are too long, alone or with those before.
        """
        self._char_pairs += true_chars * said_chars
        if self._char_pairs > MAX_CHAR_PAIRS:
            raise TooLarge
