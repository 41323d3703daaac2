"""The experiment `ensemble` of the product measures each model of its pipelines alone, on the same samples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.pipelines import PipelineTarget
from vlmhyperbench.domain.planning import index_digest, plan_experiment
from vlmhyperbench.domain.specs import RunSpec, Target
from vlmhyperbench.registry.loading import read_catalogue
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.resolution import resolve_experiment
from vlmhyperbench_sdk.types import JsonObject

REGISTRIES = Path(__file__).parents[3] / "registries"


def test_each_member_of_each_ensemble_stands_alone_beside_it() -> None:
    catalogue = read_catalogue([REGISTRIES])
    runs = dict(resolve_experiment(catalogue, catalogue.experiments["ensemble"], plugins=InstalledPlugins()))
    plan = plan_experiment([*runs.values()])
    assert len(plan.runs) == len(runs)
    pipelines = {name: spec for name, spec in runs.items() if isinstance(spec.target, PipelineTarget)}
    assert sorted(pipelines) == ["synthesis", "vote-by-field-json", "vote-of-three"]
    alone = {asked(spec, spec.target, spec.response_format) for spec in runs.values()}
    lacking = [(name, member) for name, spec in pipelines.items() for member, key in members(spec) if key not in alone]
    assert lacking == []


def members(spec: RunSpec) -> Iterator[tuple[str, str]]:
    """Yield the members of a pipeline, each with what a run of it alone is known by."""
    assert isinstance(spec.target, PipelineTarget)
    for stage in spec.target.stages:
        for member in stage.members:
            yield member.name, asked(spec, member.target, stage.response_format or spec.response_format)


def asked(spec: RunSpec, target: Target, response_format: JsonObject | None) -> str:
    same = {"format": response_format, "metrics": [metric.label for metric in spec.metrics]}
    return digest_of({"target": digest_of(target), "samples": index_digest(spec), "task": spec.task, **same})
