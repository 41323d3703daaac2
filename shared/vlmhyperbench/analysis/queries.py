"""Queries of several samples, as MLPerf's multi stream sends them: each lasts as long as its longest sample."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vlmhyperbench.analysis.distributions import FloatArray
from vlmhyperbench.analysis.percentiles import percentiles_of
from vlmhyperbench.analysis.results import Percentile
from vlmhyperbench.domain.units import NS_PER_MS


def query_latencies(
    ordinals: npt.NDArray[np.int64],
    is_answered: npt.NDArray[np.bool_],
    latency_ns: FloatArray,
    *,
    scheduled: int,
    samples: int,
) -> tuple[Percentile, ...]:
    """Describe the latencies of queries in milliseconds; a query fails if one of its samples fails.

    Args:
        ordinals: Number of each request; `samples` consecutive ones are a query. Shape: (requests,).
        is_answered: Whether each was answered with a token. Shape: (requests,).
        latency_ns: Time of each to the end of its answer. Shape: (requests,).
        scheduled: Number of requests that were to be sent; those without a row count as failed.
        samples: Number of samples of a query.
    """
    count = scheduled // samples
    query = ordinals // samples
    answered = np.bincount(query[is_answered], minlength=count)[:count]
    longest = np.zeros(max(count, int(query.max(initial=-1)) + 1))
    np.maximum.at(longest, query[is_answered], latency_ns[is_answered])
    whole = answered == samples
    values: list[float] = (longest[:count][whole] / NS_PER_MS).tolist()
    return percentiles_of(values, failed=int(count - whole.sum()))
