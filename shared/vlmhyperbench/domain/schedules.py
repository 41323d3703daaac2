"""When the requests of an open loop are sent, by the arrivals of its scenario. Pure."""

from __future__ import annotations

from vlmhyperbench.domain.arrivals import Arrivals, Instants, draw_arrivals, trace_instants
from vlmhyperbench.domain.scenarios import ArrivalSpec

_OF_TRACES = {"times_s", "output_tokens"}


def instants_of(arrivals: ArrivalSpec, *, count: int, seed: int) -> Instants:
    """Return the first `count` instants, drawn or those of the trace. Shape: (count,).

    Raises:
        InvalidInput: the instants cannot be drawn.
    """
    if arrivals.times_s:
        return trace_instants(arrivals.times_s)[:count]
    return draw_arrivals(Arrivals(**arrivals.model_dump(exclude=_OF_TRACES)), count=count, seed=seed)
