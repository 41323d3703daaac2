"""Targets are used again first by jobs that are due, then by the later steps of the runs that are open."""

from __future__ import annotations

from tests.support.builders import run_spec
from tests.support.pipelines import model, pipeline, stage
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.graph import steps_of
from vlmhyperbench.domain.next_use import OpenRun, next_uses
from vlmhyperbench.domain.steps import StepKind

READERS = pipeline(stage("read", "a"), stage("write", "b", inputs=("read",)), stage("end", "a", inputs=("write",)))
SPEC = run_spec().model_copy(update={"target": READERS})
A, B = digest_of(model("a")), digest_of(model("b"))
FIRST = next(step for step in steps_of(SPEC) if step.kind is StepKind.MEMBER)


def test_a_target_of_a_later_step_is_used_after_those_of_jobs_that_are_due() -> None:
    begun = OpenRun(spec=SPEC, begun=[(StepKind.INDEX, {}), (StepKind.MEMBER, FIRST.params)])
    assert next_uses(["x"], [begun]) == ["x", B, A]
    assert next_uses([A], [begun]) == [A, B]


def test_runs_are_used_in_their_order_and_a_step_that_has_had_a_job_is_not_used_again() -> None:
    other = run_spec(model_name="other")
    waiting, asked = OpenRun(spec=other, begun=[]), OpenRun(spec=other, begun=[(StepKind.GENERATE, {"more": 1})])
    assert next_uses([], [waiting, OpenRun(spec=SPEC, begun=[])]) == [other.target_digest, A, B]
    assert next_uses([], [asked]) == []
