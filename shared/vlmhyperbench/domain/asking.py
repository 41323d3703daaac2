"""The spec by which a step is asked, and the targets: of the run, of judges, of the members of a pipeline. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.judging import METRIC, is_judge, judge_of, judging_of, judging_spec
from vlmhyperbench.domain.pipelines import AskedModel, PipelineTarget, asked_model, asked_models
from vlmhyperbench.domain.specs import RunSpec, Target
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench_sdk.types import JsonValue


def asked_spec(spec: RunSpec, kind: StepKind, params: Mapping[str, JsonValue]) -> RunSpec:
    """Return the spec from which the requests of a step are built; `params` are the parameters of its jobs.

    Raises:
        LookupError: the run has no such judge, or its pipeline no such model.
    """
    match STEPS[kind].asks:
        case "metric":
            return judging_spec(spec, judging_of(judge_of(spec, str(params[METRIC]))))
        case "member":
            return member_spec(spec, asked_model(pipeline_of(spec), params))
        case _:
            return spec


def pipeline_of(spec: RunSpec) -> PipelineTarget:
    """Return the target of a run that is one.

    Raises:
        LookupError: the run's target is no pipeline.
    """
    match spec.target:
        case PipelineTarget():
            return spec.target
        case _:
            raise LookupError("The run's target is no pipeline.")


def member_spec(spec: RunSpec, asked: AskedModel) -> RunSpec:
    """Return the spec by which a model of a pipeline is asked: an ordinary run of that model.

    Its answers may be those of any run to the same request: how answers are combined can then be changed with no model.
    """
    return spec.model_copy(
        update={
            "target": asked.model.target,
            "decoding": asked.model.decoding.model_copy(update={"n": spec.decoding.n}),
            "response_format": asked.stage.response_format,
            "smaller": asked.model.smaller,
        }
    )


def targets_of(specs: Sequence[RunSpec]) -> list[Target]:
    """Return every target that runs with these specs ask, judges and members of pipelines included, once each."""
    asked: list[Target] = []
    for spec in specs:
        if isinstance(spec.target, PipelineTarget):
            asked += [each.model.target for each in asked_models(spec.target)]
        else:
            asked.append(spec.target)
    asked += [judging_of(metric).target for spec in specs for metric in filter(is_judge, spec.metrics)]
    return list({digest_of(target): target for target in asked}.values())
