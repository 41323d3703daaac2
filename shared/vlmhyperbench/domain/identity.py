"""The evaluation identity: everything that decides a quality number, and a short id for it.

Two numbers with one id were made alike, whoever made them and when; two ids are told apart by `differences`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.judging import is_judge
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.specs import (
    ANSWERS_DATASET,
    DatasetSpec,
    EndpointTarget,
    ExtractorSpec,
    ImportTarget,
    MetricSpec,
    PluginRef,
    RunSpec,
    SourceRef,
)

ABSENT = "(absent)"
SCORING = 2
"""Raised where the same answers get other numbers though no metric and no extractor has another version."""
_NOT_THE_LOAD = {"name", "version", "seed", "slo"}
"""What a scenario is called, and what it should keep, drives nothing; another seed is another draw of the same."""
_NOT_THE_VERDICT = {"in_flight", "prices", "unpriced"}
"""What a judge costs, and how many of its requests are under way at once."""

_CUT = {"version", "package", "limit", "doc_classes", "question_types", "required_fields"}
"""What of a data set says which of its samples are asked, and not which samples they are."""

_ID_HEX = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One place at which two identities differ; a side that lacks it is `ABSENT`."""

    path: str
    a: JsonValue
    b: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What two runs have to share so that their speeds can be compared."""

    scenario: ScenarioSpec
    manifest_id: str | None
    """Hash of the samples that were asked."""
    machines: frozenset[str]
    """Kinds of the machines that measured; none where nobody knows."""


def identify(
    spec: RunSpec,
    *,
    metric: MetricSpec,
    extractor: ExtractorSpec,
    manifest_id: str | None,
    engines: Sequence[tuple[str, str]],
    environment: str,
    judges: Sequence[tuple[str, str]] = (),
) -> dict[str, JsonValue]:
    """Return the components of an identity, by name.

    Args:
        spec: the run.
        metric: one of its metrics.
        extractor: what read the answers for it.
        manifest_id: hash of the samples that were really asked.
        engines: name and version of every engine that answered.
        environment: digest of the packages that computed the metric.
        judges: name and version of every engine that judged, for a judge; its target and prompt are its params.
    """
    is_imported = isinstance(spec.target, ImportTarget)  # its file holds what was asked, and how
    return {
        "weights": _weights(spec),
        "engine": {
            "measured": [f"{name} {version}".strip() for name, version in sorted(set(engines))],
            "backend": spec.target.backend_class,
            "adapter": None if isinstance(spec.target, ImportTarget) else _label(spec.target.adapter),
            "params": spec.target.engine_params,
        },
        "prompt": None if is_imported else spec.prompt.model_dump(mode="json"),
        "dataset": {
            "name": spec.dataset.name,
            "version": spec.dataset.version,
            "revision": spec.dataset.revision,
            "split": spec.dataset.split,
            "samples": manifest_id,
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
            "on_model_failure": spec.on_model_failure,
            "scoring": SCORING,
        },
        "judge": [f"{name} {version}".strip() for name, version in sorted(set(judges))] if is_judge(metric) else None,
    }


def _without_costs(params: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a judge's params as they were before its costs were recorded, so that ids stay the same."""
    return {name: value for name, value in params.items() if name != "unpriced"} | {"prices": None}


def id_of(components: Mapping[str, JsonValue]) -> str:
    """Return the short id of an identity: `e` and 12 hex digits."""
    return f"e{digest_of(dict(components))[:_ID_HEX]}"


def definition_of(metric: MetricSpec) -> str:
    """Return a digest of what defines a metric's numbers beside its description: what it is made of, and its params."""
    params = {
        name: value for name, value in metric.params.items() if not (is_judge(metric) and name in _NOT_THE_VERDICT)
    }
    source = {"source": metric.package.sha256} if isinstance(metric.package, SourceRef) else {}
    return digest_of({"class_path": metric.class_path, "params": params, **source})


def may_be_paired(first: DatasetSpec, second: DatasetSpec, manifest_ids: tuple[str | None, str | None]) -> bool:
    """Say whether samples of one key are one sample in two runs: every data set numbers its own.

    They are where what was asked has one hash, and where one data set was cut otherwise: by a limit, by filters, at
    another version. A file of answers is the data set that it names, wherever it lies.

    Args:
        first: data set of the one.
        second: data set of the other.
        manifest_ids: hashes of the samples that were really asked.
    """
    if manifest_ids[0] is not None and manifest_ids[0] == manifest_ids[1]:
        return True
    elsewhere = {"path"} if first.type == ANSWERS_DATASET else set[str]()
    a, b = (spec.model_dump(exclude=_CUT | elsewhere) for spec in (first, second))
    return a == b


def kind_of_machine(machine: Mapping[str, object]) -> str | None:
    """Name what decides the speed of a machine, as a claim recorded it: processor, threads and accelerators.

    None where the claim does not say: it ended before it measured, or was made before devices were recorded.
    """
    devices = machine.get("devices")
    if not machine.get("cpu_model") or not isinstance(devices, list):
        return None
    accelerators = sorted(
        str(device.get("name")) for device in devices if isinstance(device, dict) and device.get("kind") == "gpu"
    )
    return ", ".join([str(machine["cpu_model"]), f"{machine.get('cpu_threads')} threads", *accelerators])


def kinds_of_machines(machines: Iterable[Mapping[str, object]]) -> frozenset[str]:
    """Name the kinds of machines, as far as they are known."""
    return frozenset(kind for machine in machines if (kind := kind_of_machine(machine)) is not None)


def measured_apart(first: Measurement, second: Measurement) -> list[str]:
    """Say in what two runs differ that makes their speeds those of two different measurements."""
    a, b = (
        {**spec.scenario.model_dump(mode="json", exclude=_NOT_THE_LOAD), "in_flight": spec.scenario.streams}
        for spec in (first, second)
    )
    apart = [difference.path for difference in differences(a, b, path="scenario")]
    if first.machines and second.machines and first.machines != second.machines:
        apart.insert(0, "their machines")
    return apart if first.manifest_id == second.manifest_id else ["their samples", *apart]


def differences(a: JsonValue, b: JsonValue, *, path: str = "") -> Iterator[Difference]:
    """Yield the innermost places at which two values differ, in the order of their keys."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted({*a, *b}):
            place = f"{path}.{key}" if path else key
            yield from differences(a.get(key, ABSENT), b.get(key, ABSENT), path=place)
    elif a != b or isinstance(a, bool) != isinstance(b, bool):
        yield Difference(path=path, a=a, b=b)


def _weights(spec: RunSpec) -> JsonValue:
    target = spec.target
    if isinstance(target, ImportTarget):
        return {"model_name": target.model_name, "answers": target.answers}
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
