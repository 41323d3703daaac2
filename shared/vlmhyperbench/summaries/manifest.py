"""The manifest of a run: what was really used, and where each value of its configuration was written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vlmhyperbench.domain.publishing import public_spec
from vlmhyperbench.domain.recipes import RecipeFields
from vlmhyperbench.domain.spec_values import name_of, values_of
from vlmhyperbench.domain.specs import ModelTarget, PluginRef, RunSpec
from vlmhyperbench.domain.steps import StepKind, answers_for_the_run, asks_the_run
from vlmhyperbench.summaries.records import ClaimEvidence
from vlmhyperbench_sdk.types import JsonObject, JsonValue

NAME = "manifest.json"
SCHEMA = "vlmhb/run-manifest/v1"
_ENGINE = (
    *("name", "version", "argv", "packages", "adapter_packages", "sources", "environment", "variables", "warnings"),
)
FALLBACKS = "fallbacks"
"""Key of an asking claim's environment: what was given up so that the model fits, in order."""
EXECUTION = "execution"
"""Key of the same: how the models of a pipeline were loaded, and why."""
_APART = frozenset({"certificate", FALLBACKS, EXECUTION})
METRICS = "metrics"
"""Key of a claim's environment: name of a plugin as in `RunSpec.apart` → packages of its own environment, with
versions."""
UNKNOWN = "not recorded"
"""Origin of values of runs that were submitted before origins were stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimUse:
    """What one claim used."""

    id: str
    job: str
    """Kind of the job, such as `GENERATE` or `SCORE`."""
    host: str
    machine: JsonObject
    engine: JsonObject | None
    environment: JsonObject | None
    packages: JsonObject
    measured_at: str | None


def manifest_of(
    spec: RunSpec,
    claims: Sequence[ClaimUse | ClaimEvidence],
    *,
    run: Mapping[str, str | None],
    origins: Mapping[str, str] | None,
    retunes: Sequence[JsonObject] = (),
) -> dict[str, JsonValue]:
    """Return the manifest of a run as a JSON object.

    Args:
        spec: its pinned spec.
        claims: every claim whose work it contains, also those of other runs whose answers it reuses.
        run: id, name, spec digest, platform version and sample manifest.
        origins: path of a value of the spec → where it was written.
        retunes: changes of its requests in flight.
    """
    spec = public_spec(spec)
    asking = [claim for claim in claims if asks_the_run(claim.job)]
    loading = [claim for claim in claims if answers_for_the_run(claim.job) and _has_loaded(claim)]
    return {
        "schema": SCHEMA,
        **run,
        "target": _target(spec),
        "weights": _weights(spec, asking),
        "recipe": _recipe(spec),
        "engines": _engines(loading),
        "workers": _workers(claims),
        "retunes": [dict(change) for change in retunes],
        "plugins": _plugins(spec, claims),
        "configuration": configured(spec, origins),
    }


def fallbacks_of(environment: JsonObject | None) -> list[JsonObject]:
    """Return what was given up so that the model fits, as a claim's environment states it."""
    steps = (environment or {}).get(FALLBACKS)
    return [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []


def to_json(manifest: JsonObject) -> bytes:
    """Return a manifest as UTF-8 JSON."""
    return (json.dumps(manifest, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()


def configured(spec: RunSpec, origins: Mapping[str, str] | None) -> dict[str, JsonValue]:
    """Return every value of a spec with its origin, by its path; without origins they are all unknown."""
    known = origins or {}
    return {
        name: {"value": value, "origin": known.get(name, UNKNOWN)}
        for name, value in ((name_of(path), value) for path, value in values_of(spec))
    }


def _target(spec: RunSpec) -> JsonValue:
    target = spec.target
    described = {"kind": target.kind, "model": target.served_name, "backend_class": target.backend_class}
    if not isinstance(target, ModelTarget):
        return described
    return {
        **described,
        "version": target.version,
        "backend": target.backend,
        "adapter": _label(target.adapter),
        "quantization": target.quantization,
        "license": target.license,
    }


def _weights(spec: RunSpec, asking: Sequence[ClaimUse | ClaimEvidence]) -> list[JsonValue]:
    """List the files with the pinned hash, and whether every engine was started with exactly this content."""
    stated = [_mapping(_mapping(claim.engine).get("weights_sha256")) for claim in asking if claim.engine]
    if not isinstance(spec.target, ModelTarget):
        return []
    return [
        {
            "file": file.role,
            "location": file.location,
            "sha256": file.sha256,
            "is_confirmed": bool(stated) and all(hashes.get(file.role) == file.sha256 for hashes in stated),
        }
        for file in spec.target.files
    ]


def _recipe(spec: RunSpec) -> JsonValue:
    """Return how the weights were made: of which files, by which versions of the tools, with which parameters."""
    recipe = spec.target.recipe if isinstance(spec.target, ModelTarget) else None
    if recipe is None:
        return None
    tools = {"converter": recipe.converter, "quantizer": recipe.quantizer}
    return {
        "source": recipe.source,
        "inputs": [file.model_dump(mode="json") for file in recipe.sources],
        "steps": recipe.model_dump(mode="json", include=set(RecipeFields.model_fields), exclude_none=True),
        "tools": {name: list(tool.requirements) for name, tool in tools.items() if tool is not None},
        "key": recipe.key,
    }


def _has_loaded(claim: ClaimUse | ClaimEvidence) -> bool:
    """Return whether a claim has loaded its target; a model of a pipeline is not, where all its answers are reused."""
    return claim.job != StepKind.MEMBER or claim.measured_at is not None


def _engines(asking: Sequence[ClaimUse | ClaimEvidence]) -> list[JsonValue]:
    """List every distinct combination of engine, environment and machine, with the claims that used it."""
    combined: dict[str, JsonObject] = {}
    claims: dict[str, list[JsonValue]] = {}
    for claim in asking:
        engine, environment = _mapping(claim.engine), _mapping(claim.environment)
        used: JsonObject = {
            "engine": {name: engine.get(name) for name in _ENGINE} if engine else None,
            "environment": {name: item for name, item in environment.items() if name not in _APART} or None,
            "certificate": environment.get("certificate"),
            "fallbacks": [dict(step) for step in fallbacks_of(environment)],
            "execution": environment.get(EXECUTION),
            "machine": claim.machine,
            "host": claim.host,
            "measured_at": claim.measured_at,
        }
        name = json.dumps(used, sort_keys=True)
        combined.setdefault(name, used)
        claims.setdefault(name, []).append(claim.id)
    return [{"claims": claims[name], **used} for name, used in combined.items()]


def _workers(claims: Sequence[ClaimUse | ClaimEvidence]) -> list[JsonValue]:
    """List the packages of the processes that did the run's jobs, once for each distinct set."""
    combined: dict[str, tuple[JsonObject, set[str]]] = {}
    for claim in claims:
        combined.setdefault(json.dumps(claim.packages, sort_keys=True), (claim.packages, set()))[1].add(claim.job)
    return [{"jobs": sorted(jobs), "packages": packages} for packages, jobs in combined.values()]


def _plugins(spec: RunSpec, claims: Sequence[ClaimUse | ClaimEvidence]) -> dict[str, JsonValue]:
    """Return the code of datasets and metrics: distribution and version, or module and hash.

    Of plugins in environments of their own it has the pinned requirements, the origins of packages of others, and what
    was installed, as the last claim that used them has recorded it.
    """
    recorded = [_mapping(_mapping(claim.environment).get(METRICS)) for claim in claims]
    installed = {label: packages for metrics in recorded for label, packages in metrics.items()}
    apart: dict[str, JsonValue] = {
        name: {
            "requirements": list(environment.requirements),
            "sources": {package.name: package.origin for package in environment.packages},
            "packages": installed.get(name),
        }
        for name, environment in spec.apart.items()
    }
    metrics: dict[str, JsonValue] = {metric.label: _label(metric.package) for metric in spec.metrics}
    return {"dataset": _label(spec.dataset.package), "metrics": metrics, "environments": apart}


def _label(plugin: PluginRef | None) -> str | None:
    return None if plugin is None else plugin.label


def _mapping(value: JsonValue | JsonObject) -> Mapping[str, JsonValue]:
    return value if isinstance(value, Mapping) else {}
