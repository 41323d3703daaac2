"""The evaluation identity: everything that determines a quality number, and a short id for it.

Two numbers with the same id were computed in the same way. `differences` lists how two identities differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.judging import is_judge
from vlmhyperbench.domain.packages import identity_of
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.specs import (
    ANSWERS_DATASET,
    DatasetSpec,
    EndpointTarget,
    ExtractorSpec,
    ImportTarget,
    MetricSpec,
    ModelTarget,
    PipelineTarget,
    PluginRef,
    RunSpec,
    SourceRef,
)

ABSENT = "(absent)"
SCORING = 2
"""Version of the scoring: increased when the same answers get other numbers by the same metrics and extractors."""
_NOT_THE_LOAD = {"name", "version", "seed", "slo"}
"""Fields of a scenario that do not change its load: its name, its limits, and the seed of a draw."""
_NOT_THE_VERDICT = {"in_flight", "prices", "unpriced"}
"""Parameters of a judge that do not change its verdicts: its concurrency and its cost."""

_SELECTION = {"version", "package", "limit", "doc_classes", "question_types", "required_fields", "where", "sampling"}
"""Fields of a dataset that select its samples; the others determine what its samples are."""

_ID_HEX = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A component in which two identities differ; a side that lacks it is `ABSENT`."""

    path: str
    a: JsonValue
    b: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Everything in which two runs have to agree if their speeds are compared."""

    scenario: ScenarioSpec
    manifest_id: str | None
    """Hash of the samples that were asked."""
    machines: frozenset[str]
    """Kinds of the machines that measured; empty if unknown."""
    variables: frozenset[frozenset[tuple[str, str]]] = frozenset()
    """Settings that engines took from their workers' environments, name and value; empty if unknown."""


def identify(
    spec: RunSpec,
    *,
    metric: MetricSpec,
    extractor: ExtractorSpec,
    manifest_id: str | None,
    engines: Sequence[tuple[str, str]],
    environment: str,
    packages: Mapping[str, str] | None = None,
    judges: Sequence[tuple[str, str]] = (),
    examples_id: str | None = None,
) -> dict[str, JsonValue]:
    """Return the components of an identity, by name.

    Args:
        spec: the run.
        metric: one of its metrics.
        extractor: the extractor that parsed the answers for it.
        manifest_id: hash of the samples that were asked.
        engines: name and version of each engine that answered.
        environment: digest of the packages that computed the metric.
        packages: these packages with their versions, if the metric runs in an environment of its own.
        judges: name and version of each engine that gave verdicts; a judge's target and prompt are its parameters.
        examples_id: hash of the examples that stood before the questions.
    """
    target = spec.target
    is_imported = isinstance(target, ImportTarget)  # the hash of its answers covers the decoding
    is_of_file = isinstance(target, ImportTarget) and not target.is_function  # that of a file covers its prompts, too
    return {
        "weights": _weights(spec),
        "engine": {
            "measured": [f"{name} {version}".strip() for name, version in sorted(set(engines))],
            "backend": spec.target.backend_class,
            "adapter": None if isinstance(spec.target, ImportTarget | PipelineTarget) else _label(spec.target.adapter),
            "params": spec.target.engine_params,
            **_environment(spec),
            **_style(spec),
        },
        "prompt": None if is_of_file else spec.prompt.model_dump(mode="json") | _examples(examples_id),
        "dataset": {
            "name": spec.dataset.name,
            "version": spec.dataset.version,
            "revision": spec.dataset.revision,
            "split": spec.dataset.split,
            "samples": manifest_id,
            **spec.dataset.model_dump(mode="json", include={"where", "sampling", "preprocess"}),
        },
        "decoding": None
        if is_imported
        else {**spec.decoding.model_dump(mode="json"), "response_format": spec.response_format},
        "extractor": {**extractor.model_dump(mode="json"), "on_invalid": spec.on_invalid},
        "metric": {
            "name": metric.name,
            "profile": metric.profile,
            "version": metric.version,
            "params": _without_costs(metric.params) if is_judge(metric) else metric.params,
            "package": _label(metric.package),
            "environment": environment,
            **({"packages": dict(packages)} if packages is not None else {}),
            "on_model_failure": spec.on_model_failure,
            "scoring": SCORING,
        },
        "judge": [f"{name} {version}".strip() for name, version in sorted(set(judges))] if is_judge(metric) else None,
    }


def _examples(examples_id: str | None) -> dict[str, JsonValue]:
    """Return the hash of the examples; nothing without them, so that ids do not change."""
    return {} if examples_id is None else {"examples": examples_id}


def _environment(spec: RunSpec) -> dict[str, JsonValue]:
    """Return the pinned environments of engine and adapter; nothing without them, so that ids do not change."""
    if not isinstance(spec.target, ModelTarget):
        return {}
    environments = {name: getattr(spec.target, name) for name in ("environment", "adapter_environment")}
    return {name: pinned.model_dump(mode="json") for name, pinned in environments.items() if pinned is not None}


def _style(spec: RunSpec) -> dict[str, JsonValue]:
    """Return how the messages of a model are written; nothing where they are OpenAI's, so that ids do not change."""
    target = spec.target
    if not isinstance(target, ModelTarget) or target.request_style == "openai_chat":
        return {}
    return {"request_style": target.request_style}


def _without_costs(params: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a judge's parameters as they were before its costs were recorded, so that ids do not change."""
    return {name: value for name, value in params.items() if name != "unpriced"} | {"prices": None}


def id_of(components: Mapping[str, JsonValue]) -> str:
    """Return the short id of an identity: `e` and 12 hex digits."""
    return f"e{digest_of(dict(components))[:_ID_HEX]}"


def definition_of(metric: MetricSpec) -> str:
    """Return a digest of a metric's class and parameters, which define its numbers together with its description."""
    params = {
        name: value for name, value in metric.params.items() if not (is_judge(metric) and name in _NOT_THE_VERDICT)
    }
    source = {"source": metric.package.sha256} if isinstance(metric.package, SourceRef) else {}
    environment = metric.environment
    packages: list[JsonValue] = [dict(identity_of(package)) for package in environment.packages] if environment else []
    definition: dict[str, JsonValue] = {"class_path": metric.class_path, "params": params, **source}
    return digest_of({**definition, "packages": packages} if packages else definition)


def may_be_paired(first: DatasetSpec, second: DatasetSpec, manifest_ids: tuple[str | None, str | None]) -> bool:
    """Return whether samples of two runs that have the same key are the same sample.

    They are if both runs asked the same sample manifest, or if their datasets differ only in the selection of samples
    (limit, filters, version). A file of answers counts as the dataset that it names, whatever its path is.

    Args:
        first: dataset of the first run.
        second: dataset of the second run.
        manifest_ids: hashes of the samples that were asked, in the same order.
    """
    if manifest_ids[0] is not None and manifest_ids[0] == manifest_ids[1]:
        return True
    elsewhere = {"path"} if first.type == ANSWERS_DATASET else set[str]()
    a, b = (spec.model_dump(exclude=_SELECTION | elsewhere) for spec in (first, second))
    return a == b


ONLY_DECLARED = "devices only declared"
"""What the names of a machine end with, where no hardware stands behind the devices of the worker."""


def is_declared(machine: Mapping[str, object]) -> bool:
    """Return whether the devices of a machine that a claim recorded come from a declared inventory."""
    return machine.get("declared") is True


def declared_devices(machine: Mapping[str, object]) -> list[str]:
    """Return the names of the devices of a machine if they come from a declared inventory; otherwise none."""
    return names_of_devices(machine) if is_declared(machine) else []


def names_of_devices(machine: Mapping[str, object]) -> list[str]:
    """Return the names of the devices of a machine that a claim recorded; none where it recorded no devices."""
    devices = machine.get("devices")
    listed = devices if isinstance(devices, list) else []
    return [str(device.get("name")) for device in listed if isinstance(device, dict)]


def kind_of_machine(machine: Mapping[str, object]) -> str | None:
    """Return the kind of a machine that a claim recorded: processor, threads and accelerators, and what was rented.

    None if the claim ended before it measured, or is older than the recording of devices.
    """
    devices = machine.get("devices")
    if not machine.get("cpu_model") or not isinstance(devices, list):
        return None
    accelerators = sorted(
        str(device.get("name")) for device in devices if isinstance(device, dict) and device.get("kind") == "gpu"
    )
    declared = [ONLY_DECLARED] if is_declared(machine) else []
    kind = ", ".join([str(machine["cpu_model"]), f"{machine.get('cpu_threads')} threads", *accelerators, *declared])
    rented = machine.get("rented")
    if not isinstance(rented, Mapping):
        return kind
    return f"{rented.get('instance_type')} with {rented.get('accelerators')}, through a tunnel from {kind}"


def kinds_of_machines(machines: Iterable[Mapping[str, object]]) -> frozenset[str]:
    """Return the known kinds of machines."""
    return frozenset(kind for machine in machines if (kind := kind_of_machine(machine)) is not None)


def variables_of(engines: Iterable[Mapping[str, object] | None]) -> frozenset[frozenset[tuple[str, str]]]:
    """Return the distinct settings of engines from their workers' environments.

    An engine that no worker started, or that is older than their recording, adds none.
    """
    recorded = (engine.get("variables") for engine in engines if engine and engine.get("argv"))
    return frozenset(
        frozenset((str(name), str(value)) for name, value in variables.items())
        for variables in recorded
        if isinstance(variables, Mapping)
    )


def measured_apart(first: Measurement, second: Measurement) -> list[str]:
    """Return the differences between two runs because of which their speeds cannot be compared; empty if they can."""
    a, b = (
        {**spec.scenario.model_dump(mode="json", exclude=_NOT_THE_LOAD), "in_flight": spec.scenario.streams}
        for spec in (first, second)
    )
    apart = [difference.path for difference in differences(a, b, path="scenario")]
    if first.machines and second.machines and first.machines != second.machines:
        apart.insert(0, "their machines")
    if first.variables and second.variables and first.variables != second.variables:
        different = frozenset().union(*first.variables) ^ frozenset().union(*second.variables)
        names = sorted({name for name, _ in different})
        apart.insert(0, "the variables of their engines" + (f" ({', '.join(names)})" if names else ""))
    return apart if first.manifest_id == second.manifest_id else ["their samples", *apart]


def differences(a: JsonValue, b: JsonValue, *, path: str = "") -> Iterator[Difference]:
    """Yield the innermost differences between two values, in the order of their keys."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted({*a, *b}):
            inner_path = f"{path}.{key}" if path else key
            yield from differences(a.get(key, ABSENT), b.get(key, ABSENT), path=inner_path)
    elif a != b or isinstance(a, bool) != isinstance(b, bool):
        yield Difference(path=path, a=a, b=b)


def _weights(spec: RunSpec) -> JsonValue:
    target = spec.target
    if isinstance(target, ImportTarget):
        return {"model_name": target.model_name, "answers": target.answers}
    if isinstance(target, PipelineTarget):
        return {"pipeline": target.pipeline, "stages": [stage.model_dump(mode="json") for stage in target.stages]}
    if isinstance(target, EndpointTarget):
        return {"endpoint": target.endpoint, "model_name": target.model_name}
    return {
        "model": target.model,
        "version": target.version,
        "quantization": target.quantization,
        "sha256": {file.role: file.sha256 for file in target.files},
    }


def _label(plugin: PluginRef | None) -> str | None:
    return None if plugin is None else plugin.label
