"""Statistics of one measured phase: percentiles with uncertainty, the SLO, steady rates, groups of requests.

It imports scipy, so it is imported only after a load has ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vlmhyperbench.analysis.distributions import FloatArray, distribution_of, known
from vlmhyperbench.analysis.groups import Fairness, Group, fairness_of, groups_of, size_bucket
from vlmhyperbench.analysis.interference import Interference, median_ratio
from vlmhyperbench.analysis.load_design import Grouping
from vlmhyperbench.analysis.percentiles import percentiles_of
from vlmhyperbench.analysis.queries import query_latencies
from vlmhyperbench.analysis.results import CERTAINTY, Distribution, Goodput, LimitVerdict, Percentile
from vlmhyperbench.analysis.slo import LimitedTimes, check_limits, meets_all
from vlmhyperbench.analysis.steady import RULE, Rate, first_idle_ns, goodput_of, rate_within, steady_window
from vlmhyperbench.analysis.times import Times, floats_of, token_instants
from vlmhyperbench.domain.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """Rates within the window in which the load was steady."""

    rule: str
    start_s: float | None
    """Start in seconds from the first scheduled instant; like `end_s` None without a window."""
    end_s: float | None
    cut_requests: int
    """Number of requests that succeeded and ended outside of the window."""
    requests_per_s: Rate | None
    output_tokens_per_s: Rate | None
    """Tokens count at the instants at which they arrived; None where a count is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The statistics of one phase."""

    percentiles: Mapping[str, tuple[Percentile, ...]]
    """Name of a time → its percentiles in milliseconds."""
    goodput: Goodput | None
    """None without an SLO."""
    limits: tuple[LimitVerdict, ...]
    steady: Steady | None
    """None where the number of streams is unknown."""
    streams: tuple[Group, ...]
    fairness: Fairness | None
    turns: tuple[Group, ...]
    build_ms: Distribution | None
    """Time between two turns, for reading an answer and building the next body; None without conversations."""
    image_sizes: tuple[Group, ...]
    """Requests by the pixels of all their synthetic images; of a conversation, its first turn."""


def describe_phase(
    rows: pl.DataFrame,
    times: Times,
    is_answered: npt.NDArray[np.bool_],
    *,
    scheduled: int,
    duration_s: float,
    slo: Mapping[str, float],
    grouping: Grouping,
    is_open_loop: bool = False,
    certainty: float | None = None,
) -> Statistics:
    """Describe the rows of one phase.

    Args:
        rows: Rows of the phase, in order of ordinals.
        times: Times of all rows, including failed ones.
        is_answered: Whether each request was answered with a token. Shape: (requests,).
        scheduled: Number of scheduled requests; those without a row count as failed.
        duration_s: Time from the first scheduled instant to the last end.
        slo: Name of a limit → milliseconds; empty without an SLO.
        grouping: What the requests are grouped by.
        is_open_loop: Whether requests were sent by a schedule.
        certainty: Confidence with which limits are checked; None: MLPerf's 99 %.

    Raises:
        InvalidInput: the SLO names a time that is not measured.
    """
    failed = scheduled - int(is_answered.sum())
    limited = _limited(times.of(is_answered))
    percentiles = {
        name: percentiles_of(_milliseconds(values[is_answered]), failed=failed)
        for name, values in (
            ("ttft_user_ms", times.ttft_user),
            ("tpot_ms", times.tpot),
            ("latency_ms", times.latency),
        )
    }
    if grouping.samples_per_query:
        percentiles["query_latency_ms"] = query_latencies(
            rows["ordinal"].to_numpy(),
            is_answered,
            times.latency,
            scheduled=scheduled,
            samples=grouping.samples_per_query,
        )
    return Statistics(
        percentiles=percentiles,
        goodput=(
            goodput_of(int(meets_all(limited, slo).sum()), scheduled=scheduled, duration_s=duration_s) if slo else None
        ),
        limits=check_limits(limited, slo, failed=failed, certainty=CERTAINTY if certainty is None else certainty),
        steady=_steady(rows, is_answered, grouping.streams, is_open_loop=is_open_loop) if grouping.streams else None,
        streams=_groups(rows["stream"], is_answered, times) if grouping.is_by_stream else (),
        fairness=fairness_of(rows, is_ok=is_answered) if grouping.is_by_stream else None,
        turns=_groups(rows["turn"], is_answered, times) if rows["turn"].n_unique() > 1 else (),
        build_ms=distribution_of(floats_of(rows["build_ns"])) if rows["conversation"].count() else None,
        image_sizes=_by_size(rows, is_answered, times, grouping.pixels) if grouping.pixels else (),
    )


def interference_of(times: Times, baseline: Times) -> Interference:
    """Compare times of successful requests with those of a baseline."""
    ttft, tpot, latency = (
        median_ratio(_milliseconds(loaded), _milliseconds(unloaded))
        for loaded, unloaded in (
            (times.ttft_user, baseline.ttft_user),
            (times.tpot, baseline.tpot),
            (times.latency, baseline.latency),
        )
    )
    return Interference(baseline_requests=baseline.latency.size, ttft=ttft, tpot=tpot, latency=latency)


def _limited(times: Times) -> LimitedTimes:
    """Return the times that limits of an SLO can bound."""
    return {"ttft": times.ttft_user, "tpot": times.tpot, "latency": times.latency, "itl": times.longest_itl}


def _steady(rows: pl.DataFrame, is_answered: npt.NDArray[np.bool_], streams: int, *, is_open_loop: bool) -> Steady:
    has_ended = (rows["sent_ns"].is_not_null() & rows["stream_end_ns"].is_not_null()).to_numpy()
    ended = rows.filter(has_ended)
    sent_ns, end_ns = ended["sent_ns"].to_numpy(), ended["stream_end_ns"].to_numpy()
    window = None
    if ended.height:
        # Only the first turn of a conversation is an arrival.
        arrived_ns = sent_ns[(ended["turn"] == 0).to_numpy()]
        until_ns = int(arrived_ns.max()) if is_open_loop else first_idle_ns(ended["stream"].to_numpy(), end_ns)
        window = steady_window(sent_ns, end_ns, streams=streams, until_ns=until_ns)
    if window is None:
        return Steady(
            rule=RULE,
            start_s=None,
            end_s=None,
            cut_requests=int(is_answered.sum()),
            requests_per_s=None,
            output_tokens_per_s=None,
        )
    good = rows.filter(is_answered)
    ends_ns = good["stream_end_ns"].to_numpy()
    is_known = good["completion_tokens"].null_count() == 0
    origin = rows["scheduled_ns"].to_frame().min().item()
    return Steady(
        rule=RULE,
        start_s=(window.start_ns - origin) / NS_PER_S,
        end_s=(window.end_ns - origin) / NS_PER_S,
        cut_requests=int(((ends_ns <= window.start_ns) | (ends_ns > window.end_ns)).sum()),
        requests_per_s=rate_within(window, ends_ns),
        output_tokens_per_s=rate_within(window, *token_instants(good)) if is_known else None,
    )


def _groups(keys: pl.Series, is_answered: npt.NDArray[np.bool_], times: Times) -> tuple[Group, ...]:
    return groups_of(
        keys.to_list(),
        is_ok=is_answered.tolist(),
        ttft_ns=times.ttft_user,
        tpot_ns=times.tpot,
        latency_ns=times.latency,
    )


def _by_size(
    rows: pl.DataFrame, is_answered: npt.NDArray[np.bool_], times: Times, pixels: Sequence[int]
) -> tuple[Group, ...]:
    # Only the first turn of a conversation has images.
    has_images = (rows["turn"] == 0).to_numpy()
    of_first_turns = times.of(has_images)
    return groups_of(
        [size_bucket(pixels[ordinal]) for ordinal in rows.filter(has_images)["ordinal"]],
        is_ok=is_answered[has_images].tolist(),
        ttft_ns=of_first_turns.ttft_user,
        tpot_ns=of_first_turns.tpot,
        latency_ns=of_first_turns.latency,
        name_of=lambda key: key[1],
    )


def _milliseconds(values_ns: FloatArray) -> list[float]:
    """Return the defined times in milliseconds."""
    values: list[float] = (known(values_ns) / NS_PER_MS).tolist()
    return values
