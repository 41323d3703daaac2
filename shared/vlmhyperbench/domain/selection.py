"""Which samples of a dataset are asked, and how their images are prepared: filters, seeded sampling, steps. Pure."""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Final, Literal

from pydantic import Field

from vlmhyperbench.domain.base import Spec
from vlmhyperbench.domain.filters import Condition, number_of

MAX_SIDE: Final = 20_000

Label = Annotated[str, Field(min_length=1, max_length=200)]


class SamplingSpec(Spec):
    """A seeded draw of samples, which depends on their keys only: a larger size has the samples of a smaller one."""

    size: Annotated[int, Field(ge=1)]
    seed: int = 0
    by: tuple[Label, ...] = ()
    """Metadata whose values are strata; empty: all samples are one stratum."""
    allocation: Literal["proportional", "equal"] = "proportional"
    """How the size is shared out: by the sizes of the strata, or equally as far as they have samples."""


class PagesStep(Spec):
    """Keep some images of each sample, in this order; the first is 0, and -1 the last."""

    step: Literal["pages"]
    keep: Annotated[tuple[int, ...], Field(min_length=1)]


class ResizeStep(Spec):
    """Scale down images whose longer side is longer; smaller ones stay as they are."""

    step: Literal["resize"]
    max_side: Annotated[int, Field(ge=1, le=MAX_SIDE)]
    """Pixels."""


class GreyscaleStep(Spec):
    """Convert images to grey: ITU-R BT.601 luma."""

    step: Literal["greyscale"]


class RotateStep(Spec):
    """Turn images counter-clockwise."""

    step: Literal["rotate"]
    degrees: Literal[90, 180, 270]


PreprocessStep = Annotated[PagesStep | ResizeStep | GreyscaleStep | RotateStep, Field(discriminator="step")]


def passes(condition: Condition, metadata: Mapping[str, object]) -> bool:
    """Return whether the metadata of a sample meets a condition; of a list any item may, and `!=` none may."""
    value = metadata.get(condition.column)
    items = [item for item in (value if isinstance(value, (list, tuple)) else [value]) if item is not None]
    if condition.is_any:
        return bool(items) == (condition.operator == "=")
    if condition.operator == "!=":
        return not any(text_of(item) in condition.values for item in items)
    return any(_meets(condition, item) for item in items)


def _meets(condition: Condition, value: object) -> bool:
    text = text_of(value)
    if condition.operator == "=":
        return text in condition.values
    if condition.operator == "~":
        return condition.values[0].casefold() in text.casefold()
    number = number_of(text)
    if number is None:
        return False
    bound = condition.number
    return {
        "<": number < bound,
        "<=": number <= bound,
        ">": number > bound,
        ">=": number >= bound,
    }[condition.operator]


def text_of(value: object) -> str:
    """Return a value as filters and strata compare it: text itself, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def stratum_of(metadata: Mapping[str, object], by: Sequence[str]) -> tuple[str, ...]:
    """Return the stratum of a sample."""
    return tuple(text_of(metadata.get(name)) for name in by)


def draw(keys: Iterable[tuple[str, tuple[str, ...]]], sampling: SamplingSpec) -> Collection[str]:
    """Draw samples by key.

    In each stratum the keys with the smallest hashes of seed and key are drawn, so that the draw does not depend on the
    order of the samples, nor on those of other strata.

    Args:
        keys: Key and stratum of each sample.
        sampling: Size, seed and allocation.
    """
    strata: dict[tuple[str, ...], list[str]] = {}
    for key, stratum in keys:
        strata.setdefault(stratum, []).append(key)
    counts = _shares({stratum: len(members) for stratum, members in strata.items()}, sampling)
    return {
        key
        for stratum, members in strata.items()
        for key in heapq.nsmallest(counts[stratum], members, key=lambda key: rank(sampling.seed, key))
    }


def rank(seed: int, key: str) -> bytes:
    """Return what samples are drawn and ordered by."""
    return hashlib.sha256(f"{seed}\n{key}".encode()).digest()


def _shares(sizes: Mapping[tuple[str, ...], int], sampling: SamplingSpec) -> dict[tuple[str, ...], int]:
    """Share the size out: in proportion, or equally, smallest strata first; ties go by the stratum's name.

    In proportion is by the divisors of Sainte-Laguë: each further sample goes to the stratum that lacks most. So a
    larger size takes nothing from a stratum, which largest remainders would.
    """
    total = sum(sizes.values())
    size = min(sampling.size, total)
    if sampling.allocation == "equal":
        shares, left = {}, size
        for number, stratum in enumerate(sorted(sizes, key=lambda stratum: (sizes[stratum], stratum))):
            shares[stratum] = min(sizes[stratum], left // (len(sizes) - number))
            left -= shares[stratum]
        return shares
    shares = dict.fromkeys(sizes, 0)
    lacking = [(-float(count), stratum) for stratum, count in sizes.items()]
    heapq.heapify(lacking)
    for _ in range(size):
        _, stratum = lacking[0]
        shares[stratum] += 1
        heapq.heapreplace(lacking, (-sizes[stratum] / (2 * shares[stratum] + 1), stratum))
    return shares
