"""Write a run spec as the shortest entry that resolves to it, so that a run can be changed and submitted again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from vlmhyperbench.domain.specs import EndpointTarget, ImportTarget, ModelTarget, PipelineTarget, RunSpec
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.plugins import Plugins
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.resolution import pin_run
from vlmhyperbench.registry.schemas import RunEntry, TaskEntry
from vlmhyperbench.registry.validation import validate

_OF_DATASET: Final = ("split", "params", "seed", "doc_classes", "question_types", "where", "sampling", "preprocess")
_OF_SCENARIO: Final = (
    *("kind", "in_flight", "warmup_requests", "requests", "duration_s", "arrivals", "baseline_requests"),
    *("turns", "think_s", "preset", "seed", "slo"),
)
_PLAIN: Final = ("group_by", "on_model_failure", "on_invalid", "response_format", "limits", "secrets", "shares_device")


def entry_of(catalogue: Catalogue, spec: RunSpec, *, plugins: Plugins) -> dict[str, JsonValue]:
    """Return the fields of an entry: target, task, and every choice in which the spec differs from the task's own.

    Names that the registry no longer has stay in it; they are refused when it is planned or submitted.

    Raises:
        InvalidInput: the run has imported its answers, so no entry can ask for them.
    """
    if isinstance(spec.target, ImportTarget):
        message = "The run has imported its answers from a file, so it has no target to ask."
        raise InvalidInput(message, cure="Choose a run that has asked a model or an endpoint.", code="imported")
    plain: dict[str, JsonValue] = {"target": _named(spec.target), "task": spec.task, "dataset": spec.dataset.name}
    base = _base(catalogue, {**plain, "scenario": spec.scenario.name}, plugins) or _base(catalogue, plain, plugins)
    whole = _dump(spec)
    entry: dict[str, JsonValue] = {"target": _target(spec.target, whole, base), "task": spec.task}
    entry |= _parts(spec, whole, base, catalogue.tasks.get(spec.task))
    entry |= _scoring(spec, whole, base)
    decoding = _changed(whole["decoding"], base["decoding"], tuple(type(spec.decoding).model_fields))
    entry |= {"decoding": decoding} if decoding else {}
    entry |= _changed(whole, base, _PLAIN)
    if spec.reuse in {"nothing", "cache"}:
        entry["reuse"] = spec.reuse
    if spec.stop is not None:
        entry["stop"] = _without_none(spec.stop.model_dump(mode="json"))
    return entry


def _named(target: ModelTarget | EndpointTarget | PipelineTarget) -> dict[str, JsonValue]:
    if isinstance(target, PipelineTarget):
        return {"pipeline": target.pipeline}
    if isinstance(target, ModelTarget):
        return {"model": target.model, "backend": target.backend}
    named: dict[str, JsonValue] = {"endpoint": target.endpoint, "model_name": target.model_name}
    return named if target.backend_class == "openai" else {**named, "backend_class": target.backend_class}


def _target(
    target: ModelTarget | EndpointTarget | PipelineTarget, whole: Mapping[str, JsonValue], base: Mapping[str, JsonValue]
) -> JsonValue:
    """Return the target with the parameters and prices that its entries do not have."""
    named = _named(target)
    known = _at(base["target"], "engine_params")
    params = _changed(target.engine_params, known, tuple(target.engine_params))
    if params:
        named["engine_params"] = params
    if isinstance(whole["prices"], dict) and whole["prices"] != base["prices"]:
        named["prices"] = _without_none(whole["prices"])
    return named


def _parts(
    spec: RunSpec, whole: Mapping[str, JsonValue], base: Mapping[str, JsonValue], task: TaskEntry | None
) -> dict[str, JsonValue]:
    """Return dataset, limit, prompt and scenario, as far as they are not the task's."""
    parts: dict[str, JsonValue] = {}
    dataset = _changed(whole["dataset"], base["dataset"], _OF_DATASET)
    if dataset or task is None or task.dataset != spec.dataset.name:
        parts["dataset"] = {"name": spec.dataset.name, **dataset} if dataset else spec.dataset.name
    if spec.dataset.limit is not None and _at(base["dataset"], "limit") != spec.dataset.limit:
        parts["limit"] = spec.dataset.limit
    if task is None or task.prompt != spec.prompt.name:
        parts["prompt"] = spec.prompt.name
    scenario = _changed(whole["scenario"], base["scenario"], _OF_SCENARIO)
    if scenario or task is None or task.scenarios[0] != spec.scenario.name:
        parts["scenario"] = {"name": spec.scenario.name, **scenario} if scenario else spec.scenario.name
    return parts


def _scoring(spec: RunSpec, whole: Mapping[str, JsonValue], base: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return metrics, extractors and reports, as far as they are not the task's."""
    given: dict[str, JsonValue] = {
        "metrics": [metric.label for metric in spec.metrics],
        "extractors": [
            {"name": extractor.name, "params": extractor.params} if extractor.params else extractor.name
            for extractor in spec.extractors
        ],
        "reports": [report if isinstance(report, str) else report.name for report in spec.reports],
    }
    return {key: value for key, value in given.items() if whole[key] != base[key]}


def _base(catalogue: Catalogue, entry: Mapping[str, JsonValue], plugins: Plugins) -> dict[str, JsonValue]:
    """Return the spec of the entry without choices; empty where it cannot be resolved any more."""
    run, _ = validate(RunEntry, dict(entry))
    references = References(catalogue=catalogue, plugins=plugins)
    pinned = pin_run(references, run) if run is not None else None
    return _Missing() if pinned is None else _dump(pinned)


class _Missing(dict[str, JsonValue]):
    """A spec of which nothing is known, and which is falsy: every value differs from it."""

    def __missing__(self, key: str) -> JsonValue:
        return None


def _dump(spec: RunSpec) -> dict[str, JsonValue]:
    return _Missing(spec.model_dump(mode="json"))


def _changed(value: JsonValue, base: JsonValue, keys: tuple[str, ...]) -> dict[str, JsonValue]:
    given = value if isinstance(value, dict) else {}
    return _without_none({key: given[key] for key in keys if key in given and given[key] != _at(base, key)})


def _without_none(values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {key: value for key, value in values.items() if value is not None}


def _at(value: JsonValue, key: str) -> JsonValue:
    return value.get(key) if isinstance(value, dict) else None
