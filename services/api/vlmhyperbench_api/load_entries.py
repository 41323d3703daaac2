"""The run that a load is, and back: bodies of `/loads` to entries, with the rules of presets; specs to bodies. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from vlmhyperbench.domain.arrivals import Arrivals, arrivals_at_least, trace_instants
from vlmhyperbench.domain.presets import MIN_QUERIES, MIN_SINGLE_STREAM, Preset, min_seconds
from vlmhyperbench.domain.scenarios import ArrivalSpec
from vlmhyperbench.domain.slo import slo_metric, slo_percent
from vlmhyperbench.domain.specs import Decoding, EndpointTarget, Limits, RunSpec
from vlmhyperbench.domain.units import NS_PER_S
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.load.presets import VLM_IMAGES, VLM_PROMPT_TOKENS, VLM_SLO
from vlmhyperbench.registry.choices import EndpointChoice, ScenarioChoice
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry
from vlmhyperbench.wire.loads import LOAD_TASK, MAX_PROMPTS, LoadCreate, LoadSweep, Workload


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
    }
    scenario = {
        "name": LOAD_TASK,
        "kind": body.scenario,
        "preset": body.preset,
        "in_flight": body.concurrency if body.scenario != "single_stream" else None,
        "warmup_requests": body.warmup,
        "baseline_requests": body.baseline or None,
        "requests": body.requests,
        "duration_s": body.duration_s,
        "arrivals": arrivals,
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


def workload_of(spec: RunSpec) -> Workload:
    """Return what was asked for, by the names of the body."""
    scenario, params = spec.scenario, spec.dataset.params
    arrivals = scenario.arrivals
    engine = spec.target.engine_params if isinstance(spec.target, EndpointTarget) else {}
    is_traced = arrivals is not None and bool(arrivals.times_s)
    drawn = None if is_traced else arrivals
    words = params.get("prompt_tokens")
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
            "requests": scenario.requests,
            "duration_s": scenario.duration_s,
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
    expected = arrivals.mean_rate_per_s * (body.duration_s or 0) if arrivals is not None else 0
    return min(MAX_PROMPTS, max(1, body.requests or round(expected)) + body.warmup)


def _with_preset(body: LoadCreate, preset: Preset) -> LoadCreate:
    """Return the load with the duration, the number of requests, the content and the limits of its preset."""
    if body.trace or body.scenario == "multi_stream":
        what = "a trace" if body.trace else "multi_stream"
        cure = "Choose the scenario server with a rate or single_stream, or measure with `vlmhyperbench load`."
        raise _broken(preset, f"does not fit {what}", cure)
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
    if body.scenario == "single_stream":
        least = 1 if preset == "quick" else MIN_SINGLE_STREAM
        if (body.requests or least) < least:
            raise _broken(preset, f"has at least {least} requests", "Give more, or leave out requests.")
        return content.model_copy(update={"requests": body.requests or least})
    if body.requests is not None:
        raise _broken(preset, "sets the number of requests itself", "Leave out requests.")
    seconds = body.duration_s or min_seconds(preset)
    if preset == "quick":
        return content.model_copy(update={"duration_s": seconds})
    if body.arrivals != "poisson":
        raise _broken(preset, f"needs Poisson arrivals, not {body.arrivals}", "Leave out arrivals.")
    limits = dict(body.slo.limits_ms) or (VLM_SLO if preset == "vlm" else {})
    required = ("latency",) if preset == "vlm" else ("ttft", "tpot")
    on_p99 = {slo_metric(name) for name in limits if slo_percent(name) == 99}
    if missing := [metric for metric in required if metric not in on_p99]:
        names = ", ".join(f"{metric}_p99" for metric in missing)
        raise _broken(preset, f"needs limits on {names}", f"Add {names} to slo.limits_ms, in milliseconds.")
    arrivals = Arrivals(process="poisson", rate_per_s=body.rate_per_s or 0.0)
    instants = arrivals_at_least(arrivals, duration_s=seconds, min_count=MIN_QUERIES, seed=body.seed)
    slo = body.slo.model_copy(update={"limits_ms": dict(limits)})
    return content.model_copy(update={"requests": int(instants.size), "duration_s": None, "slo": slo})


def _broken(preset: Preset, rule: str, cure: str) -> InvalidInput:
    return InvalidInput(f"The preset {preset} {rule}.", cure=cure, code="preset")


def _given(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}
