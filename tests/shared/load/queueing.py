"""Results of a simulated queue: a server with N slots, a fixed service time, first come, first served."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

import numpy as np

from tests.shared.analysis.records import END, S, frame, row
from vlmhyperbench.analysis.load_design import Grouping, OpenLoop
from vlmhyperbench.analysis.load_result import LoadResult, result_of
from vlmhyperbench.domain.arrivals import Arrivals, draw_arrivals
from vlmhyperbench.load.bodies import RequestContent
from vlmhyperbench.load.workload import Workload


def workload(**changes: object) -> Workload:
    """Return a load of scenario `server`, with changed fields."""
    whole: dict[str, object] = {
        "scenario": "server",
        "content": RequestContent(model="m", prompt="hello"),
        "requests": 200,
        "duration_s": None,
        "streams": 8,
        "arrivals": Arrivals(process="poisson", rate_per_s=10.0),
        "trace": (),
        "speed": 1.0,
        "warmup": 0,
        "timeout_s": 60.0,
        "seed": 1,
        "processes": 1,
    }
    return Workload(**(whole | changes))


def served(
    load: Workload,
    *,
    slots: int,
    service_s: float,
    slo: Mapping[str, float] | None = None,
    certainty: float | None = None,
    sent_late_s: float = 0.0,
) -> LoadResult:
    """Return the result of a load at such a server: service ends with the first token, the second is 10 ms later."""
    count = load.requests or 1
    if load.arrivals is None:
        scheduled = np.arange(count) * round(service_s * S)
    else:
        scheduled = draw_arrivals(load.arrivals, count=count, seed=load.seed)
    free_at = [0.0] * slots
    rows = []
    for ordinal, at_ns in enumerate(scheduled.tolist()):
        begins_s = max(at_ns / S + sent_late_s, heapq.heappop(free_at))
        heapq.heappush(free_at, begins_s + service_s)
        first_ns = round((begins_s + service_s) * S)
        rows.append(
            row(at_ns=at_ns)
            | {
                "ordinal": ordinal,
                "sent_ns": at_ns + round(sent_late_s * S),
                "event_ns": [first_ns, first_ns + S // 100],
                "last_event_ns": first_ns + S // 100,
                "stream_end_ns": first_ns + S // 100,
            }
        )
    open_loop = None if load.arrivals is None else OpenLoop(process=load.arrivals.process, scheduled_ns=scheduled)
    return result_of(
        frame(rows),
        END,
        measured_phase=1,
        scheduled=count,
        slo=slo,
        certainty=certainty,
        open_loop=open_loop,
        grouping=Grouping(streams=1),
    )
