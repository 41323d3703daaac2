"""The limitations of a report's numbers, derived from the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from vlmhyperbench.domain.identity import declared_devices
from vlmhyperbench.domain.specs import EndpointTarget, ImportTarget, PipelineTarget
from vlmhyperbench.reports.document import Block, Document, Points, Section, write_number
from vlmhyperbench.reports.sections.extraction import spread
from vlmhyperbench.reports.sections.judging import UNJUDGED
from vlmhyperbench.reports.sections.quality import digits_of
from vlmhyperbench.reports.sections.stopping import STOPPED
from vlmhyperbench.reports.sections.times import INTERRUPTED, PARTIAL, RETUNED
from vlmhyperbench.reports.sections.wording import in_sentence, percent, plural, upper_first
from vlmhyperbench.summaries.records import ClaimEvidence
from vlmhyperbench.summaries.spans import are_one_after_another
from vlmhyperbench.summaries.summary import RunSummary

FEW_FOR_P99 = 662
"""Number of requests below which MLPerf's early-stopping rule gives no p99."""
FEW_SAMPLES = 100
MAX_LISTED = 5
"""Maximum number of an endpoint's models that are named."""

_ALWAYS = (
    "The numbers hold for this data set, prompt and decoding; on another data set the order of models may differ.",
    "Intervals cover the chance of drawing other samples of the same kind; they do not cover wrong references.",
)

ONE_AFTER_ANOTHER = ", one after another"

DECLARED = (
    "the devices ({names}) were declared in an inventory, and no hardware stands behind them: speeds and memory say "
    "nothing about such devices."
)

PIPELINE_LATENCY = (
    "the latency of a pipeline's answer is the time of its models on the critical path: the slowest chain of members, "
    "and of what merges, that need each other's answers. It has no waiting and no loading, and no user has waited for "
    "it."
)

LEFT_OUT = "the stage {stage} went on without the optional model {name}: {reason}."

LOADED_SMALLER = "the model was loaded smaller than configured, so that it fits: {steps}."

DEGRADED = (
    "degraded: the model was loaded with less than full quality, so that it fits ({steps}); do not rank it against "
    "models that were not."
)

MEASURED_ONCE = (
    "Each target was timed once{how}, and scoring may have used the machine at the same time; measure important "
    "differences of speed again."
)


def limitations(runs: Sequence[RunSummary]) -> Section:
    """List the limitations of one or several runs; those of all runs are listed once."""
    runs_of: dict[str, list[str]] = {}
    for run in runs:
        for item in _of_run(run):
            runs_of.setdefault(item, []).append(run.name)
    timed = [run for run in runs if run.performance.times.get("latency_ms")]
    how = ONE_AFTER_ANOTHER if are_one_after_another([_sending(run) for run in timed]) else ""
    once = [MEASURED_ONCE.format(how=how)] if len(timed) > 1 else []
    items = [
        upper_first(item) if len(names) == len(runs) else f"{', '.join(names)}: {item}"
        for item, names in runs_of.items()
    ]
    return Section(
        name="limitations", title="Limitations", lead="", blocks=(Points(title="", items=(*_ALWAYS, *once, *items)),)
    )


def add_limitations(document: Document, items: Sequence[str]) -> Document:
    """Return the report with further limitations after its own."""
    further = tuple(map(upper_first, items))
    sections = tuple(
        replace(section, blocks=tuple(_longer(block, further) for block in section.blocks))
        if section.name == "limitations"
        else section
        for section in document.sections
    )
    return replace(document, sections=sections)


def _longer(block: Block, further: tuple[str, ...]) -> Block:
    return replace(block, items=(*block.items, *further)) if isinstance(block, Points) else block


def _sending(run: RunSummary) -> list[ClaimEvidence]:
    """Return the claims that are known to have sent requests."""
    measured = run.performance.measured_by
    return [claim for claim in run.generating if claim.id in measured or claim.sending_from_ns is not None]


def _of_run(run: RunSummary) -> list[str]:
    parts = (
        _of_the_pipeline,
        _of_the_devices,
        _of_the_end,
        _of_the_model,
        _of_the_engine,
        _of_fallbacks,
        _of_quality,
        _of_speed,
    )
    return [item for part in parts for item in part(run)]


def _of_the_pipeline(run: RunSummary) -> list[str]:
    target = run.spec.target
    if not isinstance(target, PipelineTarget):
        return []
    dropped = [(stage.id, each) for stage in target.stages for each in stage.dropped]
    return [PIPELINE_LATENCY, *(LEFT_OUT.format(stage=stage, **each.model_dump()) for stage, each in dropped)]


def _of_the_devices(run: RunSummary) -> list[str]:
    """Say that no hardware stands behind the devices, so that nobody takes the speeds for theirs."""
    names = {name for claim in run.generating for name in declared_devices(claim.machine)}
    return [DECLARED.format(names=", ".join(sorted(names)))] if names else []


def _of_the_end(run: RunSummary) -> list[str]:
    items = [STOPPED] if run.is_stopped else []
    return [*items, UNJUDGED] if run.is_unjudged else items


def _of_the_model(run: RunSummary) -> list[str]:
    """Warn of an endpoint that does not list the requested model; some endpoints then answer with another model."""
    target = run.spec.target
    listed = sorted({name for claim in run.generating for name in _listed_models(claim)})
    if not isinstance(target, EndpointTarget) or not listed or target.model_name in listed:
        return []
    names = ", ".join(f"‘{name}’" for name in listed[:MAX_LISTED]) + (" …" if len(listed) > MAX_LISTED else "")
    return [
        f"the endpoint does not list ‘{target.model_name}’ among its models ({names}); another model may have answered."
    ]


def _of_the_engine(run: RunSummary) -> list[str]:
    """Return the warnings of the engines that ran, such as that of an untried version."""
    warnings = [claim.engine.get("warnings") for claim in run.generating if claim.engine]
    listed = [warning for each in warnings if isinstance(each, (list, tuple)) for warning in each]
    return [str(warning) for warning in dict.fromkeys(listed)]


def _listed_models(claim: ClaimEvidence) -> list[str]:
    """Return the ids in the endpoint's answer to /v1/models when the target was loaded; empty for another form."""
    properties = claim.engine.get("properties") if claim.engine else None
    answer = properties.get("/v1/models") if isinstance(properties, Mapping) else None
    models = answer.get("data") if isinstance(answer, Mapping) else None
    entries = models if isinstance(models, (list, tuple)) else ()
    return [str(entry["id"]) for entry in entries if isinstance(entry, Mapping) and "id" in entry]


def _of_quality(run: RunSummary) -> list[str]:
    items, counts = [], run.counts
    target = run.spec.target
    is_imported = isinstance(target, ImportTarget)
    if isinstance(target, ImportTarget) and target.is_function:
        items.append("a Python function gave the answers: how it decoded them is not known, and nothing was timed.")
    elif is_imported:
        items.append("the answers were imported: their file says what was asked and how, and nothing was timed.")
    if run.left_out:
        items.append(f"{plural(run.left_out, 'answer')} of the file belong to no sample that is in the run.")
    if run.differing:
        items.append(
            f"of {plural(run.differing, 'answer')} the file knows other references than the data set; check that equal "
            "keys mean the same sample."
        )
    if counts.scored < FEW_SAMPLES:
        items.append(f"only {plural(counts.scored, 'answer')} could be scored, so intervals are wide.")
    if counts.missing:
        items.append(f"{plural(counts.missing, 'request')} have no row, because the run ended early.")
    failures = counts.model_failures + counts.infrastructure_failures
    if failures:
        items.append(f"{plural(failures, 'request')} failed; the bounds show how far that could change the scores.")
    if counts.truncated:
        known = plural(counts.truncated, "answer")
        share = known if counts.truncation_rate is None else f"{percent(counts.truncation_rate)} of the answers"
        is_own = not is_imported and not isinstance(run.spec.target, PipelineTarget)
        limit = f"the limit of {run.spec.decoding.max_tokens} tokens" if is_own else "a token limit"
        items.append(f"{share} ended at {limit}.")
    if run.unreadable:
        what = "had an image or a text that was refused" if is_imported else "of the data set could not be read"
        items.append(f"{plural(run.unreadable, 'sample')} {what}.")
    reach = spread(run)
    if reach is not None and run.primary is not None and reach[0] != reach[1]:
        low, high = (write_number(end, digits_of(run.primary.description)) for end in reach)
        items.append(f"the score depends on how answers are read: {run.primary.label} from {low} to {high}.")
    if run.spec.decoding.n == 1:
        items.append("every question was asked once, so the variation between repeats is unknown.")
    return items


def _of_speed(run: RunSummary) -> list[str]:
    performance = run.performance
    latency = performance.times.get("latency_ms")
    if latency is None:
        return []
    spec, items = run.spec, []
    if spec.scenario.kind in {"offline", "multi_stream"}:
        items.append(
            f"latency was measured in {spec.scenario.in_words}; it differs for single requests and in an open loop."
        )
    if (spec.scenario.bound or 0) > (run.samples or 0):
        items.append("samples were asked more than once, so an engine with a prefix cache answers faster.")
    if spec.scenario.arrivals is None and run.total and run.total < spec.scenario.streams:
        requests, streams = plural(run.total, "request"), spec.scenario.streams
        items.append(f"the run has only {requests} for {streams} streams, so fewer were in flight than intended.")
    left = (run.samples or 0) - (spec.scenario.bound or run.samples or 0)
    baseline = spec.scenario.baseline_requests
    if baseline and baseline + spec.scenario.warmup_requests > max(left, 0):
        items.append(
            "baseline requests asked samples that were measured afterwards; an engine with a prefix cache answered "
            "those faster, which understates the interference between streams."
        )
    if latency.n < FEW_FOR_P99:
        items.append(f"the p99 is of {plural(latency.n, 'request')}; a certain bound needs at least {FEW_FOR_P99}.")
    if not isinstance(spec.target, EndpointTarget):
        items.append("the load generator shared the machine with the engine.")
    if "estimated" in performance.token_sources:
        items.append("the server did not count tokens: they are estimated, and so are TPOT and tokens per second.")
    return [*items, *_of_parts(run)]


def _of_fallbacks(run: RunSummary) -> list[str]:
    """Name what was given up so that the model fits; a smaller cache may have cost quality."""
    steps = {
        (str(step.get("rung")), f"{step.get('before')} → {step.get('after')}", bool(step.get("is_lossy")))
        for step in run.fallbacks
    }
    items = []
    for is_lossy, text in ((False, LOADED_SMALLER), (True, DEGRADED)):
        names = [f"{rung} ({change})" for rung, change, lossy in sorted(steps) if lossy is is_lossy]
        items += [text.format(steps=", ".join(names))] if names else []
    return items


def _of_parts(run: RunSummary) -> list[str]:
    items, performance = [], run.performance
    if performance.is_partial:
        items.append(in_sentence(PARTIAL))
    if performance.is_retuned:
        items.append(in_sentence(RETUNED))
    if performance.is_interrupted:
        items.append(in_sentence(INTERRUPTED))
    elif performance.parts > 1:
        items.append(f"the run was measured in {performance.parts} parts; rates are over the sum of their times.")
    if performance.hosts > 1:
        items.append(f"times of {performance.hosts} machines are mixed.")
        if isinstance(run.spec.target, EndpointTarget):
            items.append(
                "several machines asked the endpoint at once, so more requests were in flight than configured."
            )
    return items
