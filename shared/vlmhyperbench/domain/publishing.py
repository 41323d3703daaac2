"""Specs without secrets, for display: addresses lose the parts that can be secret."""

from __future__ import annotations

from vlmhyperbench.domain.judging import is_judge, judging_of
from vlmhyperbench.domain.pipelines import MemberSpec, StageSpec
from vlmhyperbench.domain.specs import EndpointTarget, MetricSpec, PipelineTarget, RunSpec, Target


def public_address(endpoint: str) -> str:
    """Return an address without the parts that can be secret: user, password and query."""
    return endpoint.split("?")[0].rpartition("@")[2]


def public_spec(spec: RunSpec) -> RunSpec:
    """Return a spec whose addresses, including those of judges, have no secret parts."""
    metrics = tuple(public_metric(metric) for metric in spec.metrics)
    return spec.model_copy(update={"target": _public_target(spec.target), "metrics": metrics})


def public_metric(metric: MetricSpec) -> MetricSpec:
    """Return a metric for display: the address of a judge has no secret parts."""
    if not is_judge(metric):
        return metric
    target = _public_target(judging_of(metric).target)
    return metric.model_copy(update={"params": {**metric.params, "target": target.model_dump(mode="json")}})


def _public_target(target: Target) -> Target:
    if isinstance(target, PipelineTarget):
        return target.model_copy(update={"stages": tuple(map(_public_stage, target.stages))})
    if not isinstance(target, EndpointTarget):
        return target
    return target.model_copy(update={"endpoint": public_address(target.endpoint)})


def _public_stage(stage: StageSpec) -> StageSpec:
    aggregation = stage.aggregation
    if aggregation is not None and aggregation.merger is not None:
        aggregation = aggregation.model_copy(update={"merger": _public_member(aggregation.merger)})
    members = tuple(map(_public_member, stage.members))
    return stage.model_copy(update={"members": members, "aggregation": aggregation})


def _public_member(member: MemberSpec) -> MemberSpec:
    return member.model_copy(update={"target": _public_target(member.target)})
