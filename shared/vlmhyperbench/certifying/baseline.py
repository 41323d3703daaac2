"""The performance baseline of a certificate: TTFT, TPOT and tokens/s of a loaded engine, by the load generator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vlmhyperbench.certifying.certificates import Level, Measured
from vlmhyperbench.load.bodies import RequestContent
from vlmhyperbench.load.measure import Control, Target, measure
from vlmhyperbench.load.series import repeat
from vlmhyperbench.load.workload import Workload
from vlmhyperbench_sdk.types import JsonObject

if TYPE_CHECKING:
    from vlmhyperbench.analysis.repeats import RepeatedMean

REPEATS: Final = 5
DEFAULT_IN_FLIGHT: Final = 8
LIMITS: Final = ("parallel", "max_num_seqs", "max_batch", "max_running_requests")
"""Parameters of engines that limit the requests which are computed at once."""
_SINGLE: Final = 8
_ROUNDS: Final = 4
"""Requests of a repeat: eight one at a time; else four for each request in flight."""
_PROMPT_WORDS: Final = 32
_OUTPUT_TOKENS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """What is measured, and how the measurement reports its progress."""

    target: Target
    model: str
    measured_at: str
    report: Callable[[str], None]


def concurrency_of(engine_params: JsonObject) -> int:
    """Return the number of requests that an engine computes at once, as its parameters state it."""
    stated = (engine_params.get(name) for name in LIMITS)
    return next((value for value in stated if isinstance(value, int) and value > 0), DEFAULT_IN_FLIGHT)


async def measure_baseline(measuring: Measuring, *, concurrency: int) -> list[Level]:
    """Measure one request at a time, and as many as the engine computes at once.

    Raises:
        Unavailable: no request was answered.
    """
    levels = list(dict.fromkeys((1, concurrency)))
    return [await _level(measuring, in_flight) for in_flight in levels]


async def _level(measuring: Measuring, in_flight: int) -> Level:
    requests = _SINGLE if in_flight == 1 else _ROUNDS * in_flight
    workload = Workload(
        scenario="single_stream" if in_flight == 1 else "offline",
        content=RequestContent(
            model=measuring.model, prompt="", prompt_tokens=_PROMPT_WORDS, output_tokens=_OUTPUT_TOKENS
        ),
        requests=requests,
        duration_s=None,
        streams=in_flight,
        arrivals=None,
        trace=(),
        speed=1.0,
        warmup=in_flight,
        timeout_s=120.0,
        seed=0,
        processes=1,
    )
    control = Control(report=lambda line: measuring.report(f"baseline, {in_flight} in flight: {line}"))
    result = await repeat(
        workload, lambda load, _: measure(load, measuring.target, control), control, max_repeats=REPEATS
    )
    return Level(
        in_flight=in_flight,
        repeats=len(result.runs),
        requests=requests,
        valid=result.valid,
        failed_gates=sorted({gate.name for run in result.runs for gate in run.gates if not gate.ok}),
        measured_at=measuring.measured_at,
        **_figures(result.metrics),
    )


def _figures(metrics: Mapping[str, RepeatedMean]) -> dict[str, Measured]:
    names = {"ttft_ms": "ttft_p50", "tpot_ms": "tpot_p50", "output_tokens_per_s": "output_tokens_per_s"}
    return {
        name: Measured(mean=metrics[metric].mean, low=metrics[metric].low, high=metrics[metric].high)
        for name, metric in names.items()
    }
