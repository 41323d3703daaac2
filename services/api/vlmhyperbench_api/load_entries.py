"""The run that a load is, and back: bodies of `/loads` to entries, with the rules of presets; specs to bodies. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from vlmhyperbench.domain.arrivals import Arrivals, arrivals_at_least, trace_instants
from vlmhyperbench.domain.presets import MIN_REQUESTS, SAMPLES_PER_QUERY, Preset, min_seconds
from vlmhyperbench.domain.scenarios import ArrivalSpec
from vlmhyperbench.domain.slo import slo_metric, slo_percent
from vlmhyperbench.domain.specs import Decoding, EndpointTarget, Limits, RunSpec
from vlmhyperbench.domain.units import NS_PER_S
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.load.presets import VLM_IMAGES, VLM_PROMPT_TOKENS, VLM_SLO
from vlmhyperbench.registry.choices import EndpointChoice, ScenarioChoice
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry
from vlmhyperbench.wire.loads import (
    LOAD_TASK,
    MAX_PROMPTS,
    THINK_S,
    TURNS,
    LoadCreate,
    LoadRepeats,
    LoadSweep,
    Workload,
)

QUICK_REQUESTS = 100
"""Of a closed loop of the preset `quick`, unless others are given."""


def entry_of(body: LoadCreate) -> RunEntry:
    """Return the run that a load is.

    Raises:
        InvalidInput: the load breaks a rule of its preset.
    """
    body = body if body.preset is None else _with_preset(body, body.preset)
    arrivals = _arrivals(body)
    extra = {**body.extra_body, **({"ignore_eos": True} if body.ignore_eos else {})}
    engine = {"api_key_secret": body.api_key_secret, "extra_body": extra or None}
    images = {"images": body.images, "image_size": body.image_size, "image_reuse": body.image_reuse or None}
    dataset = {
        "requests": _prompts(body, arrivals),
        "prompt": body.prompt,
        "prompt_tokens": [request.prompt_tokens or body.prompt_tokens for request in body.trace] or body.prompt_tokens,
        **(images if body.images else {}),
        "turns": _turns(body) if body.scenario == "interactive" else None,
    }
    scenario = {
        "name": LOAD_TASK,
        "kind": body.scenario,
        "preset": body.preset,
        "in_flight": body.concurrency if body.scenario != "single_stream" else None,
        "warmup_requests": body.warmup,
        "baseline_requests": body.baseline or None,
        "requests": _requests(body),
        "duration_s": body.duration_s,
        "arrivals": arrivals,
        **_conversing(body),
        "seed": body.seed,
        "slo": body.slo.model_dump(),
    }
    return RunEntry.model_validate(
        {
            "target": EndpointChoice(endpoint=body.url, model_name=body.model, engine_params=_given(engine)),
            "task": LOAD_TASK,
            "dataset": {"name": LOAD_TASK, "seed": body.seed, "params": _given(dataset)},
            "scenario": ScenarioChoice.model_validate(_given(scenario)),
            "decoding": Decoding(max_tokens=body.output_tokens),
            "limits": Limits(request_timeout_s=body.timeout_s),
        }
    )


def sweep_of(body: LoadSweep) -> ExperimentEntry:
    """Return the experiment of a sweep; each point has its own seed, so that its prompts are in no cache.

    Raises:
        InvalidInput: a load of it breaks a rule of its preset.
    """
    load, points = body.load, list[dict[str, float]]()
    for number, value in enumerate(body.values):
        at = {"rate_per_s": value} if body.axis == "rate" else {"concurrency": int(value)}
        points.append({**at, "seed": load.seed + number})
    return ExperimentEntry(runs=tuple(entry_of(load.model_copy(update=point)) for point in points))


def repeats_of(body: LoadRepeats) -> ExperimentEntry:
    """Return the experiment of repeats; each has its own seed, so that its prompts are in no cache.

    Raises:
        InvalidInput: the load breaks a rule of its preset.
    """
    load = body.load
    seeded = [load.model_copy(update={"seed": load.seed + number}) for number in range(body.repeats)]
    return ExperimentEntry(runs=tuple(map(entry_of, seeded)))


def workload_of(spec: RunSpec) -> Workload:
    """Return what was asked for, by the names of the body."""
    scenario, params = spec.scenario, spec.dataset.params
    arrivals = scenario.arrivals
    engine = spec.target.engine_params if isinstance(spec.target, EndpointTarget) else {}
    is_traced = arrivals is not None and bool(arrivals.times_s)
    drawn = None if is_traced else arrivals
    words = params.get("prompt_tokens")
    is_interactive = scenario.kind == "interactive"
    conversations = -(-scenario.requests // scenario.turns) if is_interactive and scenario.requests else None
    return Workload.model_validate(
        {
            "scenario": scenario.kind,
            "preset": scenario.preset,
            "rate_per_s": drawn.rate_per_s if drawn else None,
            "arrivals": arrivals.process if arrivals else None,
            "cv": drawn.cv if drawn and drawn.process == "gamma" else None,
            "burst_size": drawn.burst_size if drawn and drawn.process == "burst" else None,
            "to_rate_per_s": drawn.last_rate_per_s if drawn else None,
            "traced": len(arrivals.times_s) if arrivals else 0,
            "concurrency": scenario.streams,
            "requests": None if is_interactive else scenario.requests,
            "duration_s": scenario.duration_s,
            "conversations": conversations,
            "turns": scenario.turns if is_interactive else None,
            "think_s": scenario.think_s if is_interactive else None,
            "prompt": params.get("prompt"),
            "prompt_tokens": words if isinstance(words, int) else None,
            "output_tokens": spec.decoding.max_tokens,
            "images": params.get("images", 0),
            "image_size": params.get("image_size"),
            "image_reuse": params.get("image_reuse", 0.0),
            "warmup": scenario.warmup_requests,
            "baseline": scenario.baseline_requests,
            "timeout_s": spec.limits.request_timeout_s,
            "seed": scenario.seed,
            "extra_body": engine.get("extra_body", {}),
            "api_key_secret": engine.get("api_key_secret"),
        }
    )


def _arrivals(body: LoadCreate) -> ArrivalSpec | None:
    if body.trace:
        instants = trace_instants([request.timestamp_s for request in body.trace], speed=body.speed)
        times_s = [instant / NS_PER_S for instant in instants.tolist()]
        lengths = tuple(request.output_tokens for request in body.trace)
        return ArrivalSpec(
            process="trace",
            rate_per_s=min(max((len(times_s) - 1) / times_s[-1] if times_s[-1] else 1.0, 1e-6), 100_000),
            times_s=tuple(times_s),
            output_tokens=lengths if any(lengths) else (),
        )
    if body.rate_per_s is None:
        return None
    given = {"cv": body.cv, "burst_size": body.burst_size, "last_rate_per_s": body.to_rate_per_s}
    return ArrivalSpec.model_validate({"process": body.arrivals, "rate_per_s": body.rate_per_s, **_given(given)})


def _prompts(body: LoadCreate, arrivals: ArrivalSpec | None) -> int:
    """Return the number of different prompts; a trace has one for each request."""
    if body.trace:
        return len(body.trace)
    if body.prompt is not None and not body.images:
        return 1
    expected = arrivals.mean_rate_per_s * (body.duration_s or 0) * _turns(body) if arrivals is not None else 0
    return min(MAX_PROMPTS, max(1, _requests(body) or round(expected)) + body.warmup)


def _turns(body: LoadCreate) -> int:
    """Return the questions of a conversation; 1 where there are none."""
    return (body.turns or TURNS) if body.scenario == "interactive" else 1


def _requests(body: LoadCreate) -> int | None:
    return body.requests if body.conversations is None else body.conversations * _turns(body)


def _conversing(body: LoadCreate) -> dict[str, float]:
    if body.scenario != "interactive":
        return {}
    return {"turns": _turns(body), "think_s": THINK_S if body.think_s is None else body.think_s}


def _with_preset(body: LoadCreate, preset: Preset) -> LoadCreate:
    """Return the load with the duration, the number of requests, the content and the limits of its preset."""
    if body.trace:
        raise _broken(preset, "does not fit a trace", "Choose a rate or a number in flight.")
    if body.scenario == "interactive" and body.rate_per_s is None:
        raise _broken(preset, "of interactive needs a rate", "Add rate_per_s, the conversations that begin per second.")
    if body.duration_s is not None and body.duration_s < min_seconds(preset):
        raise _broken(
            preset, f"lasts at least {min_seconds(preset):g} s", "Leave out duration_s, or give a larger one."
        )
    content = body
    if preset == "vlm":
        sizes = ",".join(f"{width}x{height}" for width, height in VLM_IMAGES.sizes)
        chosen = body.model_fields_set
        own = {"images": VLM_IMAGES.count, "image_size": sizes, "prompt_tokens": VLM_PROMPT_TOKENS}
        content = body.model_copy(update={name: value for name, value in own.items() if name not in chosen})
    if body.rate_per_s is None:
        return content.model_copy(update=_closed(content, preset))
    if body.requests is not None or body.conversations is not None:
        cure = "Leave out requests and conversations."
        raise _broken(preset, "sets the number of requests itself", cure)
    return content.model_copy(update=_at_rate(content, preset, body.rate_per_s))


def _closed(body: LoadCreate, preset: Preset) -> dict[str, int]:
    """Return streams and requests of a closed loop, whose time nobody knows before it is measured."""
    is_by_queries = preset != "quick" and body.scenario == "multi_stream"
    streams = body.concurrency if "concurrency" in body.model_fields_set or not is_by_queries else SAMPLES_PER_QUERY
    if is_by_queries and streams != SAMPLES_PER_QUERY:
        cure = f"Set concurrency to {SAMPLES_PER_QUERY}, or leave it out."
        raise _broken(preset, f"sends queries of {SAMPLES_PER_QUERY} requests, not {streams}", cure)
    if preset == "quick":
        return {"concurrency": streams, "requests": body.requests or max(QUICK_REQUESTS, 4 * streams)}
    least = MIN_REQUESTS[body.scenario]
    if (body.requests or least) < least:
        raise _broken(preset, f"has at least {least} requests", "Give more, or leave out requests.")
    return {"concurrency": streams, "requests": body.requests or least}


def _at_rate(body: LoadCreate, preset: Preset, rate_per_s: float) -> dict[str, object]:
    """Return the bounds and limits of an open loop."""
    seconds = body.duration_s or min_seconds(preset)
    if preset == "quick":
        return {"duration_s": seconds}
    if body.arrivals != "poisson":
        raise _broken(preset, f"needs Poisson arrivals, not {body.arrivals}", "Leave out arrivals.")
    limits = dict(body.slo.limits_ms) or (VLM_SLO if preset == "vlm" else {})
    required = ("latency",) if preset == "vlm" else ("ttft", "tpot")
    on_p99 = {slo_metric(name) for name in limits if slo_percent(name) == 99}
    if missing := [metric for metric in required if metric not in on_p99]:
        names = ", ".join(f"{metric}_p99" for metric in missing)
        raise _broken(preset, f"needs limits on {names}", f"Add {names} to slo.limits_ms, in milliseconds.")
    arrivals = Arrivals(process="poisson", rate_per_s=rate_per_s)
    least = -(-MIN_REQUESTS[body.scenario] // _turns(body))
    count = int(arrivals_at_least(arrivals, duration_s=seconds, min_count=least, seed=body.seed).size)
    slo = body.slo.model_copy(update={"limits_ms": dict(limits)})
    counted = "conversations" if body.scenario == "interactive" else "requests"
    return {counted: count, "duration_s": None, "slo": slo}


def _broken(preset: Preset, rule: str, cure: str) -> InvalidInput:
    return InvalidInput(f"The preset {preset} {rule}.", cure=cure, code="preset")


def _given(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}
