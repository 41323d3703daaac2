"""Times of requests by stream, turn or image size, and how evenly streams were served. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from vlmhyperbench.analysis.distributions import FloatArray, IntArray, distribution_of
from vlmhyperbench.analysis.results import Distribution
from vlmhyperbench.analysis.times import floats_of
from vlmhyperbench.domain.units import NS_PER_S
from vlmhyperbench_sdk.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

Key = TypeVar("Key", int, tuple[float, str])

_MEGAPIXEL = 1_000_000
_BOUNDS_MP = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Requests of one group, with the times of those that succeeded, in milliseconds."""

    name: str
    requests: int
    ok: int
    ttft_user_ms: Distribution
    tpot_ms: Distribution
    latency_ms: Distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Fairness:
    """How evenly streams were served: an index of 1 is evenly, 1 / streams means that one stream got everything."""

    streams: int
    requests: float | None
    """Jain's index of each stream's successful requests per second; None where no request succeeded."""
    output_tokens: float | None
    """Jain's index of each stream's output tokens per second; None where a count is unknown."""


def groups_of(
    keys: Sequence[Key],
    *,
    is_ok: Sequence[bool],
    ttft_ns: FloatArray,
    tpot_ns: FloatArray,
    latency_ns: FloatArray,
    name_of: Callable[[Key], str] = str,
) -> tuple[Group, ...]:
    """Summarise the requests of each key, in order of the keys.

    Args:
        keys: Key of each request: a stream's or turn's number, or a `size_bucket`. Shape: (requests,).
        is_ok: Whether each request succeeded. Shape: (requests,).
        ttft_ns: First token minus scheduled, NaN where undefined. Shape: (requests,).
        tpot_ns: Time per token after the first, NaN where undefined. Shape: (requests,).
        latency_ns: Last token minus scheduled, NaN where undefined. Shape: (requests,).
        name_of: Maps a key to the group's name.

    Raises:
        InvalidInput: the columns differ in length.
    """
    if len({len(keys), len(is_ok), len(ttft_ns), len(tpot_ns), len(latency_ns)}) != 1:
        message = "The columns of a grouping differ in length."
        raise InvalidInput(message, cure="Give one value per request in each column.")
    members: dict[Key, list[int]] = {}
    for request, key in enumerate(keys):
        members.setdefault(key, []).append(request)
    return tuple(
        _group(name_of(key), np.array(members[key]), np.asarray(is_ok, dtype=np.bool_), (ttft_ns, tpot_ns, latency_ns))
        for key in sorted(members)
    )


def jain_index(rates: Sequence[float]) -> float | None:
    """Return Jain's fairness index (Σx)² / (n·Σx²) (Jain et al. 1984, DEC-TR-301); None where all rates are 0."""
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares > 0 else None


def fairness_of(rows: pl.DataFrame, *, is_ok: npt.NDArray[np.bool_]) -> Fairness | None:
    """Compare the rates of streams, each over the time from its first scheduled instant to its last end.

    A request that failed takes its time and brings nothing. One that could not be sent ends at its scheduled instant.

    Args:
        rows: Requests, with the columns `stream`, `scheduled_ns`, `stream_end_ns` and `completion_tokens`.
        is_ok: Whether each request succeeded. Shape: (requests,).

    Returns:
        None with fewer than two streams, or where a stream succeeded in no time.
    """
    streams, scheduled_ns = rows["stream"].to_numpy(), rows["scheduled_ns"].to_numpy()
    end_ns = rows["stream_end_ns"].fill_null(rows["scheduled_ns"]).to_numpy()
    tokens = floats_of(rows["completion_tokens"])
    names = np.unique(streams)
    if names.size < 2:
        return None
    requests, output = [], []
    for name in names:
        own = streams == name
        span_s = (int(end_ns[own].max()) - int(scheduled_ns[own].min())) / NS_PER_S
        good = own & is_ok
        if span_s <= 0 and good.any():
            return None
        # A stream without a success has a rate of 0, also where it took no time.
        requests.append(int(good.sum()) / span_s if good.any() else 0.0)
        output.append(float(tokens[good].sum()) / span_s if good.any() else 0.0)
    is_known = not np.isnan(output).any()
    return Fairness(
        streams=len(names), requests=jain_index(requests), output_tokens=jain_index(output) if is_known else None
    )


def size_bucket(pixels: int) -> tuple[float, str]:
    """Return the bucket of all pixels of a request's images: its upper bound, which orders buckets, and its name."""
    for bound in _BOUNDS_MP:
        if pixels <= bound * _MEGAPIXEL:
            return bound, f"up to {bound:g} MP"
    return float("inf"), f"above {_BOUNDS_MP[-1]:g} MP"


def _group(name: str, own: IntArray, is_ok: npt.NDArray[np.bool_], columns: tuple[FloatArray, ...]) -> Group:
    good = own[is_ok[own]]
    ttft, tpot, latency = (distribution_of(column[good]) for column in columns)
    return Group(
        name=name, requests=int(own.size), ok=int(good.size), ttft_user_ms=ttft, tpot_ms=tpot, latency_ms=latency
    )
