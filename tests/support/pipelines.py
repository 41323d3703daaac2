"""Builders of pipelines with defaults."""

from __future__ import annotations

from typing import Any

from vlmhyperbench.domain.pipelines import AggregationSpec, InnerMember, MemberSpec, PipelineTarget, StageSpec
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.scoring.combining import Asked, Reply


def model(name: str, **changes: Any) -> ModelTarget:
    """Make the target of a model."""
    return ModelTarget(model=name, version="1.0.0", backend="simulated", backend_class="simulated", **changes)


def member(name: str, **changes: Any) -> MemberSpec:
    """Make a member that asks a model of its name."""
    return MemberSpec(name=name, target=model(name), **changes)


def stage(
    name: str, *members: str | MemberSpec, aggregation: str | None = None, merger: str | None = None, **changes: Any
) -> StageSpec:
    """Make a stage; `changes` that an aggregation has are its params."""
    params = changes.pop("params", {})
    merges = None if merger is None else member(merger)
    how = (
        None
        if aggregation is None
        else AggregationSpec(
            class_path=aggregation, params=params, merger=merges, is_repaired=aggregation == "synthesis"
        )
    )
    asked = tuple(each if isinstance(each, MemberSpec) else member(each) for each in members)
    return StageSpec(id=name, members=asked, aggregation=how, **changes)


def inner(name: str, last: str, **changes: Any) -> InnerMember:
    """Make a pipeline that answers in a stage, after its models; its last stage is `last`."""
    return InnerMember(name=name, stage=last, **{"position": 99, **changes})


def pipeline(*stages: StageSpec) -> PipelineTarget:
    """Make a pipeline."""
    return PipelineTarget(pipeline="readers", version="1.0.0", stages=stages)


def answered(question: str = "What?", **texts: str | Reply) -> Asked:
    """Make one sample; `read__small` is the answer of a member of the stage read, `read__merge__m` merges."""
    replies = {}
    for name, given in texts.items():
        stage_id, *rest = name.split("__")
        role, who = rest if len(rest) > 1 else ("member", rest[0])
        replies[stage_id, role, who] = given if isinstance(given, Reply) else Reply(text=given)
    return Asked(question=question, replies=replies)
