"""Percentiles so far of whatever does not end: counts in fixed logarithmic buckets, each an eighth wide at most."""

from __future__ import annotations

_PER_OCTAVE = 8
_BITS = 3


class LogBuckets:
    """Counts of non-negative whole numbers by their first four binary digits; what is below 16 is exact."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.n = 0

    def add(self, value: int) -> None:
        """Count a value; a negative one counts as 0."""
        bucket = _bucket_of(max(0, value))
        self._counts[bucket] = self._counts.get(bucket, 0) + 1
        self.n += 1

    def percentile(self, percent: float) -> int | None:
        """Return the largest value of the bucket in which the nearest rank lies; None of nothing."""
        rank, seen = max(1, -(-self.n * percent // 100)), 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= rank:
                return _largest_of(bucket)
        return None


def _bucket_of(value: int) -> int:
    shift = max(0, value.bit_length() - 1 - _BITS)
    return shift * _PER_OCTAVE + (value >> shift)


def _largest_of(bucket: int) -> int:
    shift = max(0, bucket // _PER_OCTAVE - 1)
    return ((bucket - shift * _PER_OCTAVE + 1) << shift) - 1
