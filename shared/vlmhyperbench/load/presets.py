"""Presets: the duration, number of requests and limits of a load, by published rules.

`official` follows MLPerf Inference (inference_rules.adoc, "Scenarios" and the appendix on early stopping; loadgen's
mlperf.conf): at least 600 s; single_stream p90, multi_stream p99 of queries of 8 samples, server p99 of TTFT and TPOT
over Poisson arrivals (interactive: of conversations), offline at least 24,576 samples. `note` states the differences.
`vlm` is `official` with images and a limit of 12 s on the p99 of the whole answer, that of MLPerf's vision-language
benchmark.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from vlmhyperbench.analysis.load_result import LoadResult, PresetUsed
from vlmhyperbench.analysis.preset_gates import certified_gate, limit_gates
from vlmhyperbench.analysis.results import Gate
from vlmhyperbench.domain.presets import MIN_REQUESTS, SAMPLES_PER_QUERY, Preset, min_seconds
from vlmhyperbench.domain.slo import slo_metric, slo_percent
from vlmhyperbench.load.bodies import Images, RequestContent
from vlmhyperbench.load.workload import Workload
from vlmhyperbench_sdk.errors import InvalidInput

VLM_SLO = {"latency_p99": 12_000.0}
VLM_IMAGES = Images(count=1, sizes=((512, 512), (768, 768), (1024, 1024)))
VLM_PROMPT_TOKENS = 256

_NOTES = {
    "single_stream": "MLPerf's rules of single stream.",
    "multi_stream": "MLPerf's rules of multi stream, except that the samples of a query do not wait for other queries: "
    "the k-th requests of all 8 streams form query k, which lasts as long as its longest request.",
    "offline": "MLPerf's rules of offline, except that at most as many samples are in flight as there are streams.",
    "server": "MLPerf's rules of server.",
    "interactive": "MLPerf's rules of server, for the turns of conversations that arrive as a Poisson process.",
}


def with_preset(
    workload: Workload, preset: Preset, slo: Mapping[str, float]
) -> tuple[Workload, dict[str, float], PresetUsed]:
    """Apply a preset; return the load, its limits and a description of the preset.

    Raises:
        InvalidInput: the load breaks a rule of the preset.
    """
    if workload.requests is not None or workload.trace or workload.conversations is not None:
        raise InvalidInput(
            f"--preset {preset} sets the number of requests itself.",
            cure="Leave out --requests, --conversations and --trace, or leave out --preset.",
        )
    if workload.scenario in ("server", "interactive") and workload.arrivals is None:
        what = "conversations" if workload.scenario == "interactive" else "requests"
        raise InvalidInput(
            f"--preset {preset} of {workload.scenario} needs a rate.",
            cure=f"Give --rate, the number of {what} that arrive per second.",
        )
    min_s = min_seconds(preset)
    if workload.duration_s is not None and workload.duration_s < min_s:
        raise InvalidInput(
            f"--preset {preset} lasts at least {min_s:g} s, not {workload.duration_s:g} s.",
            cure="Give a longer --duration, or leave it out.",
        )
    workload = dataclasses.replace(workload, duration_s=workload.duration_s or min_s)
    if preset == "quick":
        return workload, dict(slo), PresetUsed(name=preset, note="quick: not for publication")
    limits, note = dict(slo), _NOTES[workload.scenario]
    if preset == "vlm":
        workload = dataclasses.replace(workload, content=_with_images(workload.content))
        if workload.content.images is not None:
            unique = "" if workload.content.images.reuse else " and unique"
            note += f" The images are synthetic{unique}; they stand in for a product catalogue."
        limits = limits or (VLM_SLO if workload.is_open_loop else {})
    workload = dataclasses.replace(workload, is_at_least=True, min_requests=_min_requests(workload, preset, limits))
    if workload.scenario == "multi_stream":
        workload = dataclasses.replace(workload, samples_per_query=SAMPLES_PER_QUERY)
    return workload, dict(limits), PresetUsed(name=preset, note=note)


def with_preset_gates(result: LoadResult, workload: Workload, used: PresetUsed) -> LoadResult:
    """Add the gates of a preset to a result: its percentile is certified, and its limits are certainly kept."""
    gates: list[Gate] = []
    statistics = result.statistics
    if workload.is_at_least and workload.scenario == "single_stream":
        gates.append(certified_gate("latency", statistics.percentiles["latency_ms"][1]))
    if workload.is_at_least and workload.scenario == "multi_stream":
        gates.append(certified_gate("query_latency", statistics.percentiles["query_latency_ms"][2]))
    if workload.is_at_least and workload.is_open_loop:
        gates.extend(limit_gates(statistics.limits))
    return dataclasses.replace(result.with_gates(*gates), preset=used)


def _with_images(content: RequestContent) -> RequestContent:
    return dataclasses.replace(
        content,
        images=content.images or (None if content.media else VLM_IMAGES),
        prompt_tokens=content.prompt_tokens or VLM_PROMPT_TOKENS,
    )


def _min_requests(workload: Workload, preset: Preset, limits: Mapping[str, float]) -> int:
    if workload.scenario == "multi_stream" and workload.streams != SAMPLES_PER_QUERY:
        raise InvalidInput(
            f"--preset {preset} sends queries of {SAMPLES_PER_QUERY} samples, not {workload.streams}.",
            cure=f"Give --concurrency {SAMPLES_PER_QUERY}, or leave it out.",
        )
    if workload.scenario in ("server", "interactive"):
        _check_server(workload, preset, limits)
    return MIN_REQUESTS[workload.scenario]


def _check_server(workload: Workload, preset: Preset, limits: Mapping[str, float]) -> None:
    if workload.arrivals is not None and workload.arrivals.process != "poisson":
        raise InvalidInput(
            f"--preset {preset} needs Poisson arrivals, not {workload.arrivals.process}.",
            cure="Leave out --arrivals.",
        )
    on_p99 = {slo_metric(name) for name in limits if slo_percent(name) == 99}
    required = ("latency",) if preset == "vlm" else ("ttft", "tpot")
    missing = [metric for metric in required if metric not in on_p99]
    if missing:
        raise InvalidInput(
            f"--preset {preset} of server needs a limit on the p99 of {' and '.join(missing)}.",
            cure=f"Give --slo '{','.join(f'{metric}_p99<MILLISECONDS' for metric in required)}'.",
        )
