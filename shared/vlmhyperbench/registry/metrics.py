"""Pin the metrics of a run, including the target, prompt and extractor of judges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, JsonValue

from vlmhyperbench.domain.judging import Judging, Worth, is_judge, plain
from vlmhyperbench.domain.specs import Decoding, MetricSpec
from vlmhyperbench.registry.choices import ExtractorRef, TargetChoice
from vlmhyperbench.registry.errors import Path
from vlmhyperbench.registry.packages import pin_metric_environment
from vlmhyperbench.registry.pins import check_supported, merge_decoding, pin_extractors
from vlmhyperbench.registry.prices import PricesChoice
from vlmhyperbench.registry.prompt_pins import pin_prompt
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import TaskEntry
from vlmhyperbench.registry.targets import pin_prices, resolve_target
from vlmhyperbench.registry.validation import validate
from vlmhyperbench.registry.values import Params, Slug, Strict


def _yes_or_no() -> dict[str, Worth]:
    return {"yes": 1.0, "no": 0.0}


class JudgeParams(Strict):
    """Params of a judge: its target, its prompt and the values of its verdicts."""

    target: TargetChoice
    prompt: Slug
    decoding: Decoding | None = None
    """Decoding of verdicts: `n` is the number of verdicts per answer; the default limit is 64 tokens per verdict."""
    labels: Annotated[dict[str, Worth], Field(min_length=1)] = Field(default_factory=_yes_or_no)
    extractor: ExtractorRef = "text"
    swap: bool = True
    images: bool = False
    in_flight: Annotated[int, Field(ge=1, le=4096)] = 4
    prices: PricesChoice | None = None
    """Prices; by default those of the target."""
    title: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Title; by default the name of the entry."""


def pin_metrics(
    references: References, chosen: Sequence[str], task: TaskEntry | None, path: Path
) -> list[MetricSpec | None]:
    """Pin metrics; None replaces a metric that cannot be resolved."""
    metrics: list[MetricSpec | None] = []
    for no, reference in enumerate(chosen):
        location = (*path, no) if path[-1] == "metrics" else path
        metric = references.metric(reference, location)
        if metric is not None:
            environment = pin_metric_environment(references, references.catalogue.metrics[metric.name], location)
            metric = metric.model_copy(update={"environment": environment})
            if task is not None:
                check_supported(references, "metric", metric.name, task.supported_metrics, task, location)
            if is_judge(metric):
                params = pin_judge(references, metric.name, metric.params, location)
                metric = metric.model_copy(update={"params": params}) if params is not None else None
        if metric is not None and metric in metrics:
            references.say(location, f"the metric {reference!r} is listed twice.", "Remove one of them.")
        metrics.append(metric)
    return metrics


def pin_judge(references: References, name: str, params: Params, path: Path) -> dict[str, JsonValue] | None:
    """Pin a judge's params, or report their problems."""
    written, problems = validate(JudgeParams, params)
    for problem in problems:
        references.say((*path, *problem.path), problem.message, problem.cure)
    if written is None:
        return None
    target = resolve_target(references, written.target, None, (*path, "target"))
    own = (written.prices, (*path, "prices"))
    prices, unpriced = pin_prices(references, written.target, (*path, "target"), own=own)
    alone = "a judge is asked about each answer alone"
    prompt = pin_prompt(references, written.prompt, (*path, "prompt"), no_examples=alone)
    [extractor] = pin_extractors(references, (written.extractor,), (*path, "extractor"))
    if target is None or prompt is None or extractor is None:
        return None
    if len({plain(label) for label in written.labels} - {""}) < len(written.labels):
        message = "two labels differ only in case or punctuation, or a label is no word."
        references.say((*path, "labels"), message, "Write words that differ in more than case and punctuation.")
        return None
    judging = Judging(
        target=target,
        prompt=prompt,
        decoding=merge_decoding(Decoding(max_tokens=64), written.decoding),
        labels=written.labels,
        extractor=extractor,
        swap=written.swap,
        images=written.images,
        in_flight=written.in_flight,
        prices=prices,
        unpriced=unpriced,
        title=written.title or name,
    )
    pinned: dict[str, JsonValue] = judging.model_dump(mode="json")
    return pinned
