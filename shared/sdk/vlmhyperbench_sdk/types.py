"""The nouns that plugins exchange with the platform: samples, prompts, measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Union

from vlmhyperbench_sdk.errors import InvalidInput

JsonScalar = Union[str, int, float, bool, None]
JsonValue = Union[JsonScalar, Sequence["JsonValue"], Mapping[str, "JsonValue"]]
JsonObject = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One picture of a sample: its encoded bytes (PNG, JPEG, WEBP), or the file that holds them.

    The platform reads, hashes, checks and stores the bytes; a plugin never has to decode them.
    """

    data: bytes | None = None
    path: Path | None = None

    def __post_init__(self) -> None:
        if (self.data is None) == (self.path is None):
            raise InvalidInput("An image needs either data or path.", cure="Give exactly one of the two.")

    def read(self) -> bytes:
        """Return the encoded bytes.

        Raises:
            OSError: the file cannot be read.
        """
        return self.data if self.data is not None else self.path.read_bytes()  # type: ignore[union-attr]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One question: images, text, references (accepted answers) and metadata.

    `key` is stable across runs, machines and orders of iteration: runs are paired by it.
    """

    key: str
    question: str
    images: tuple[Image, ...] = ()
    references: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=dict)
    """Group columns and whatever a prompt or metric needs; `doc_class` and `question_type` where they exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A rendered prompt: what is really sent, and kept with every sample."""

    user: str
    system: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The score of one sample: a value, or *unscored* with a reason; never 0 or NaN in its place."""

    value: float | None
    reason: str | None = None
    statistics: Mapping[str, float] = field(default_factory=dict)

    @staticmethod
    def unscored(reason: str) -> Measure:
        """Say that no number can be given, and why."""
        return Measure(value=None, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The scores of a batch, by column. Every sequence has one entry per sample, in the batch's order.

    `statistics` are additive: the sum of each over any group, given to `Metric.combine`, is the exact pooled value of
    that group. A sample that is unscored (value None, with a reason) has 0 in every statistic.
    """

    values: Sequence[float | None]
    """Shape: (samples,)."""
    reasons: Sequence[str | None]
    """Why a value is None. Shape: (samples,)."""
    statistics: Mapping[str, Sequence[float]]
    """Named additive statistics. Each of shape (samples,)."""

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> Measure:
        return Measure(
            value=self.values[index],
            reason=self.reasons[index],
            statistics={name: column[index] for name, column in self.statistics.items()},
        )
