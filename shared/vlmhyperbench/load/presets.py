"""Presets: how long a load lasts, how many requests it has and which limits it must keep, by rules others know.

`official` follows MLPerf Inference (inference_rules.adoc, "Scenarios" and the appendix on early stopping; loadgen's
mlperf.conf): at least 600 s; single_stream p90, multi_stream p99 of queries of 8 samples, server p99 of TTFT and TPOT
over Poisson arrivals (interactive: of conversations), offline at least 24,576 samples. What differs is said in `note`.
`vlm` is `official` with images and a limit of 12 s on the p99 of the whole answer, that of MLPerf's vision-language
benchmark.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from vlmhyperbench.analysis.load_result import LoadResult, PresetUsed
from vlmhyperbench.analysis.results import Gate
from vlmhyperbench.analysis.validity import at_least
from vlmhyperbench.domain.slo import slo_metric, slo_percent
from vlmhyperbench.load.bodies import Asked, Images
from vlmhyperbench.load.workload import Workload
from vlmhyperbench_sdk.errors import InvalidInput

if TYPE_CHECKING:
    from vlmhyperbench.analysis.results import LimitVerdict

Preset = Literal["quick", "official", "vlm"]

QUICK_SECONDS = 10.0
OFFICIAL_SECONDS = 600.0
SAMPLES_PER_QUERY = 8
MIN_SINGLE_STREAM, MIN_QUERIES, MIN_OFFLINE = 64, 662, 24_576
"""MLPerf's early stopping certifies no p90 below 64 requests and no p99 below 662; samples of offline."""

VLM_SLO = {"latency_p99": 12_000.0}
VLM_IMAGES = Images(count=1, sizes=((512, 512), (768, 768), (1024, 1024)))
VLM_PROMPT_TOKENS = 256

_NOTES = {
    "single_stream": "MLPerf's rules of single stream.",
    "multi_stream": "MLPerf's rules of multi stream, but that a query's samples wait for no other query's: "
    "the k-th requests of all 8 streams are query k, and it lasts as long as the longest of them.",
    "offline": "MLPerf's rules of offline, but that no more samples are under way at a time than there are streams.",
    "server": "MLPerf's rules of server.",
    "interactive": "MLPerf's rules of server, for the turns of conversations that arrive as a Poisson process.",
}


def with_preset(
    workload: Workload, preset: Preset, slo: Mapping[str, float]
) -> tuple[Workload, dict[str, float], PresetUsed]:
    """Give a load what its preset asks for; return it, its limits and what was used.

    Raises:
        InvalidInput: the load breaks a rule of the preset.
    """
    if workload.requests is not None or workload.trace or workload.conversations is not None:
        raise InvalidInput(
            f"--preset {preset} says itself how much is sent.",
            cure="Leave --requests, --conversations and --trace out, or the preset.",
        )
    if workload.scenario in ("server", "interactive") and workload.arrivals is None:
        what = "conversations" if workload.scenario == "interactive" else "requests"
        raise InvalidInput(
            f"--preset {preset} of {workload.scenario} needs a rate.",
            cure=f"Give --rate: how many {what} arrive a second.",
        )
    min_s = QUICK_SECONDS if preset == "quick" else OFFICIAL_SECONDS
    if workload.duration_s is not None and workload.duration_s < min_s:
        raise InvalidInput(
            f"--preset {preset} lasts at least {min_s:g} s, not {workload.duration_s:g} s.",
            cure="Give a longer --duration, or none.",
        )
    workload = dataclasses.replace(workload, duration_s=workload.duration_s or min_s)
    if preset == "quick":
        return workload, dict(slo), PresetUsed(name=preset, note="quick: not for publication")
    limits, note = dict(slo), _NOTES[workload.scenario]
    if preset == "vlm":
        workload = dataclasses.replace(workload, asked=_with_images(workload))
        if workload.asked.images is not None:
            alike = "" if workload.asked.images.reuse else " and no two are alike"
            note += f" Images are synthetic{alike}: a stand-in for a product catalogue."
        limits = limits or (VLM_SLO if workload.is_open_loop else {})
    workload = dataclasses.replace(workload, is_at_least=True, min_requests=_min_requests(workload, preset, limits))
    if workload.scenario == "multi_stream":
        workload = dataclasses.replace(workload, samples_per_query=SAMPLES_PER_QUERY)
    return workload, dict(limits), PresetUsed(name=preset, note=note)


def checked_by(result: LoadResult, workload: Workload, used: PresetUsed) -> LoadResult:
    """Add the gates of a preset: its percentile is certified, its limits are certainly kept."""
    gates: list[Gate] = []
    found = result.statistics
    if workload.is_at_least and workload.scenario == "single_stream":
        p90 = found.percentiles["latency_ms"][1]
        gates.append(at_least("certified_latency_p90_ms", p90.certified, 0.0))
    if workload.is_at_least and workload.scenario == "multi_stream":
        p99 = found.percentiles["query_latency_ms"][2]
        gates.append(at_least("certified_query_latency_p99_ms", p99.certified, 0.0))
    if workload.is_at_least and workload.is_open_loop:
        gates.extend(_kept(limit) for limit in found.limits)
    return dataclasses.replace(result.with_gates(*gates), preset=used)


def _kept(limit: LimitVerdict) -> Gate:
    """Make a gate of how many requests may exceed a limit that is certainly kept."""
    from vlmhyperbench.analysis.percentiles import overlatency

    allowed = overlatency(limit.n, limit.percent, certainty=limit.certainty) or 0
    return Gate(name=f"{limit.name}_over", ok=limit.is_certain, value=float(limit.over), limit=float(allowed))


def _with_images(workload: Workload) -> Asked:
    asked = workload.asked
    return dataclasses.replace(
        asked,
        images=asked.images or (None if asked.media else VLM_IMAGES),
        prompt_tokens=asked.prompt_tokens or VLM_PROMPT_TOKENS,
    )


def _min_requests(workload: Workload, preset: Preset, limits: Mapping[str, float]) -> int:
    match workload.scenario:
        case "single_stream":
            return MIN_SINGLE_STREAM
        case "multi_stream":
            if workload.streams != SAMPLES_PER_QUERY:
                raise InvalidInput(
                    f"--preset {preset} sends queries of {SAMPLES_PER_QUERY} samples, not {workload.streams}.",
                    cure=f"Give --concurrency {SAMPLES_PER_QUERY}, or none.",
                )
            return MIN_QUERIES * SAMPLES_PER_QUERY
        case "offline":
            return MIN_OFFLINE
        case _:
            return _min_requests_of_server(workload, preset, limits)


def _min_requests_of_server(workload: Workload, preset: Preset, limits: Mapping[str, float]) -> int:
    if workload.arrivals is not None and workload.arrivals.process != "poisson":
        raise InvalidInput(
            f"--preset {preset} sends as a Poisson process, not {workload.arrivals.process}.",
            cure="Leave --arrivals out.",
        )
    on_p99 = {slo_metric(name) for name in limits if slo_percent(name) == 99}
    wanted = ("latency",) if preset == "vlm" else ("ttft", "tpot")
    missing = [metric for metric in wanted if metric not in on_p99]
    if missing:
        raise InvalidInput(
            f"--preset {preset} of server needs a limit on the p99 of {' and '.join(missing)}.",
            cure=f"Give --slo '{','.join(f'{metric}_p99<MILLISECONDS' for metric in wanted)}'.",
        )
    return MIN_QUERIES
