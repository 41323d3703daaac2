"""Types that plugins exchange with the platform: samples, prompts, measures."""

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
    """An image of a sample: its encoded bytes (PNG, JPEG, WEBP), the file that contains them, or the URL of that file.

    The platform reads, hashes, validates and stores the bytes; a plugin never has to decode them. Only the platform
    fetches URLs, where that is allowed.
    """

    data: bytes | None = None
    path: Path | None = None
    url: str | None = None
    """Address, which begins with `https://` or `http://`."""

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.data, self.path, self.url)) != 1:
            raise InvalidInput("An image needs either data, path or url.", cure="Give exactly one of them.")

    @classmethod
    def at(cls, text: str, folder: Path) -> Image:
        """Return the image of a cell: at a URL, or at a path in a folder."""
        if text.lower().startswith(("https://", "http://")):
            return cls(url=text)
        return cls(path=folder / text)

    def read(self) -> bytes:
        """Return the encoded bytes.

        Raises:
            OSError: the file cannot be read.
            InvalidInput: it is at a URL.
        """
        if self.url is not None:
            raise InvalidInput(f"The image {self.url[:200]!r} is at a URL.", cure="Let the platform fetch it.")
        return self.path.read_bytes() if self.path is not None else self.data or b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A sample: images, question, references (accepted answers) and metadata.

    `key` is stable across runs, machines and iteration orders, since runs are paired by it.
    """

    key: str
    question: str
    images: tuple[Image, ...] = ()
    references: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=dict)
    """Group columns and data for prompts or metrics; `doc_class` and `question_type` where they exist."""
    location: str | None = field(default=None, compare=False)
    """Where it is written, such as a file and its line, for messages; two equal samples may stand in two places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A rendered prompt, exactly as sent and stored with every sample."""

    user: str
    system: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Per-sample score: a value, or *unscored* with a reason; 0 or NaN never stand for a missing value."""

    value: float | None
    reason: str | None = None
    statistics: Mapping[str, float] = field(default_factory=dict)

    @staticmethod
    def unscored(reason: str) -> Measure:
        """Return an unscored measure with its reason."""
        return Measure(value=None, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The per-sample scores of a batch, by column. Every sequence has one entry per sample, in the batch's order.

    `statistics` are additive: from their sums over any group, `Metric.combine` computes the exact pooled value of that
    group. An unscored sample (value None, with a reason) has 0 in every statistic.
    """

    values: Sequence[float | None]
    """Shape: (samples,)."""
    reasons: Sequence[str | None]
    """Reason why a value is None. Shape: (samples,)."""
    statistics: Mapping[str, Sequence[float]]
    """Name → additive statistic of shape (samples,)."""

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> Measure:
        return Measure(
            value=self.values[index],
            reason=self.reasons[index],
            statistics={name: column[index] for name, column in self.statistics.items()},
        )
