"""Measure two servers in pairs, in random order, so that a drift of the machine affects both alike."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vlmhyperbench.analysis.load_metrics import STATED, value_of
from vlmhyperbench.analysis.load_result import LoadResult
from vlmhyperbench.load.measure import Control
from vlmhyperbench.load.workload import Workload
from vlmhyperbench_sdk.errors import Unavailable

if TYPE_CHECKING:
    from vlmhyperbench.analysis.pairs import PairedRatio

Side = Literal["first", "second"]
MeasureSide = Callable[[Workload, Side, str], Awaitable[LoadResult]]
"""Measures a load at one of the two servers; the text is the name of the measurement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The same load, with the same seed, at both servers."""

    began_with: Side
    first: LoadResult
    second: LoadResult


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedResult:
    """Two servers that were measured in pairs."""

    valid: bool
    urls: tuple[str, str]
    ratios: Mapping[str, PairedRatio]
    """Metric → ratio of the second server's value to the first's, with a 95 % interval for each metric by itself."""
    pairs: tuple[Pair, ...]


async def measure_in_pairs(
    workload: Workload, measure_side: MeasureSide, control: Control, *, urls: tuple[str, str], pairs: int
) -> PairedResult:
    """Measure pairs; the seed decides which server is measured first. An interrupted pair is left out.

    Raises:
        Unavailable: nothing could be measured.
    """
    from vlmhyperbench.analysis.pairs import ratio_of_pairs

    # Each server is first equally often, so no drift within pairs favours either.
    order: list[Side] = ["first", "second"] * -(-pairs // 2)
    random.Random(workload.seed).shuffle(order)  # noqa: S311 - a random order, not a secret
    done: list[Pair] = []
    for number, begins in enumerate(order[:pairs], 1):
        seeded = dataclasses.replace(workload, seed=workload.seed + number - 1)
        both: dict[Side, LoadResult] = {}
        sides: tuple[Side, Side] = ("first", "second") if begins == "first" else ("second", "first")
        for side in sides:
            control.report(f"pair {number} of {pairs}: {urls[0 if side == 'first' else 1]}")
            try:
                both[side] = await measure_side(seeded, side, f"{number:03}-{side}")
            except Unavailable:
                if not (control.is_stopped and done):
                    raise
            if control.is_stopped:
                break
        if control.is_stopped:
            break
        done.append(Pair(began_with=begins, first=both["first"], second=both["second"]))
    return PairedResult(
        valid=len(done) == pairs and all(pair.first.valid and pair.second.valid for pair in done),
        urls=urls,
        ratios={
            name: ratio_of_pairs(
                [value_of(pair.first, name) for pair in done], [value_of(pair.second, name) for pair in done]
            )
            for name in STATED
        },
        pairs=tuple(done),
    )
