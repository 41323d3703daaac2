"""A pipeline as a target: which models it asks, in which order, and what each of them needs."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.shared.domain.builders_of_jobs import judge_metric
from tests.support.builders import run_spec
from tests.support.pipelines import inner, member, model, pipeline, stage
from vlmhyperbench.domain.asking import asked_spec, pipeline_of, targets_of
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.graph import answers_step, steps_of
from vlmhyperbench.domain.identity import identify
from vlmhyperbench.domain.pipelines import (
    MemberSpec,
    PipelineTarget,
    StageSpec,
    asked_model,
    asked_models,
    can_do_without,
    is_dispensable,
    models_within,
    needed_by,
    questioned,
    refusal_of_images,
)
from vlmhyperbench.domain.planning import ACCURACY_PHASE, expand_run, plan_rescoring
from vlmhyperbench.domain.publishing import public_spec
from vlmhyperbench.domain.recipes import ModelFile
from vlmhyperbench.domain.run_plan import needs_of_run, requests_of
from vlmhyperbench.domain.specs import Decoding, EndpointTarget, ExtractorSpec, Limits, RunSpec
from vlmhyperbench.domain.stalling import stall_limit_s
from vlmhyperbench.domain.steps import StepKind

READERS = pipeline(
    stage("read", "small", "large", aggregation="vote"),
    stage("write", "small", "large", inputs=("read",), aggregation="synthesis", merger="judge"),
)


def spec_of(target: PipelineTarget = READERS, **changes: object) -> RunSpec:
    return run_spec().model_copy(update={"target": target, **changes})


def test_its_models_are_asked_stage_by_stage_and_what_merges_comes_after_what_it_merges() -> None:
    assert [asked.label for asked in asked_models(READERS)] == [
        "read/small",
        "read/large",
        "write/small",
        "write/large",
        "write/judge (merge)",
        "write/judge (repair)",
    ]


def test_the_models_of_the_first_stage_are_asked_the_question_of_the_sample() -> None:
    assert questioned(READERS) == [model("small"), model("large")]


def test_a_model_is_found_by_the_params_of_its_job() -> None:
    for asked in asked_models(READERS):
        assert asked_model(READERS, asked.params) == asked
    with pytest.raises(LookupError, match="tiny"):
        asked_model(READERS, {"stage": "read", "role": "member", "member": "tiny"})
    with pytest.raises(LookupError, match="listen"):
        READERS.stage("listen")


def test_a_model_needs_the_answers_of_the_stages_before_and_of_the_first_one_for_the_question() -> None:
    target = pipeline(
        stage("a", "m"), stage("b", "m", inputs=("a",)), stage("c", "m"), stage("d", "m", inputs=("a", "b"))
    )
    needed = {asked.stage.id: [other.stage.id for other in needed_by(target, asked)] for asked in asked_models(target)}
    assert needed == {"a": [], "b": ["a"], "c": [], "d": ["a", "b"]}
    merge, repair = list(asked_models(READERS))[4:]
    assert [other.label for other in needed_by(READERS, merge)] == [
        "read/small",
        "read/large",
        "write/small",
        "write/large",
    ]
    assert needed_by(READERS, repair)[-1] == merge


def test_only_an_aggregation_that_repairs_asks_its_model_again() -> None:
    target = pipeline(stage("read", "m", "n", aggregation="template", params={"template": "x"}, merger="judge"))
    assert [asked.role for asked in asked_models(target)] == ["member", "member", "merge"]


def test_each_model_is_a_step_and_the_answers_are_those_that_are_combined() -> None:
    steps = steps_of(spec_of())
    assert [step.kind for step in steps] == [
        StepKind.INDEX,
        *[StepKind.MEMBER] * 6,
        StepKind.COMBINE,
        StepKind.SCORE,
        StepKind.REPORT,
    ]
    assert [step.needs for step in steps] == [
        (),
        (0,),
        (0,),
        (1, 2),
        (1, 2),
        (1, 2, 3, 4),
        (1, 2, 3, 4, 5),
        (1, 2, 3, 4, 5, 6),
        (7,),
        (8,),
    ]
    assert answers_step(steps).no == 7
    assert [step.target_digest for step in steps[1:3]] == [digest_of(model("small")), digest_of(model("large"))]
    assert steps[5].params == {"stage": "write", "role": "merge", "member": "judge"}


def test_the_targets_of_runs_are_their_own_the_members_and_the_judges_once_each() -> None:
    judged = run_spec().model_copy(update={"metrics": (judge_metric(),)})
    asked = targets_of([spec_of(), judged, judged])
    assert [target.served_name for target in asked] == ["small", "large", "judge", judged.target.served_name, "wise"]
    assert {digest_of(target) for target in asked} >= {judged.target_digest, digest_of(model("large"))}


def test_the_combined_answers_have_the_first_phase_and_each_model_one_that_does_not_count() -> None:
    expansion = expand_run(spec_of(decoding=Decoding(n=2), limits=Limits(shard_size=4)), samples=3)
    phases = {phase.step: phase for phase in expansion.phases}
    assert expansion.total == 6
    assert (phases[7].no, phases[7].kind, phases[7].counts, phases[7].count) == (ACCURACY_PHASE, "accuracy", True, 6)
    assert [(phases[no].no, phases[no].kind, phases[no].counts) for no in range(1, 7)] == [
        (no + 1, "member", False) for no in range(1, 7)
    ]
    members = [job for job in expansion.jobs if job.step == 1]
    assert [(job.phase, job.range_start, job.range_end) for job in members] == [(2, 0, 4), (2, 4, 6)]
    assert [(job.phase, job.range_end, job.needs_state) for job in expansion.jobs if job.step == 7] == [(1, 6, "ENDED")]


def test_a_rescoring_asks_no_model_of_it() -> None:
    jobs = plan_rescoring(spec_of(), total=6, reused=(1,)).jobs
    assert [job.kind for job in jobs] == [StepKind.SCORE, StepKind.REPORT]


def test_a_model_is_asked_as_in_a_run_of_its_own() -> None:
    own = member("small", decoding=Decoding(max_tokens=9))
    schema = {"type": "json_object"}
    target = pipeline(stage("read", own, response_format=schema))
    spec = spec_of(target, decoding=Decoding(n=3))
    asked = asked_spec(spec, StepKind.MEMBER, next(asked_models(target)).params)
    assert (asked.target, asked.decoding, asked.response_format) == (own.target, Decoding(max_tokens=9, n=3), schema)
    assert asked_spec(spec, StepKind.COMBINE, {}) == spec
    assert stall_limit_s(spec, StepKind.MEMBER, next(asked_models(target)).params, requests=1) > 0


def test_only_the_target_of_a_pipeline_is_one() -> None:
    assert pipeline_of(spec_of()) == READERS
    with pytest.raises(LookupError):
        pipeline_of(run_spec())


def test_a_plan_counts_the_requests_of_each_model_and_what_each_needs() -> None:
    spec = spec_of(pipeline(stage("read", "small", "large", aggregation="vote")))
    counted = [(each.kind, each.count, each.member) for each in requests_of(spec, 10)]
    assert counted == [("warmup", 4, None), ("member", 10, "read/small"), ("member", 10, "read/large")]
    assert [need.target_digest for need in needs_of_run(spec)] == [digest_of(model("small")), digest_of(model("large"))]


def test_it_behaves_like_a_target_without_an_engine_of_its_own() -> None:
    remote = member("remote").model_copy(
        update={
            "target": EndpointTarget(
                endpoint="https://user:word@host/v1?key=1", model_name="m", engine_params={"api_key_secret": "KEY"}
            )
        }
    )
    target = pipeline(stage("read", remote, "small", aggregation="synthesis", merger="judge"))
    assert (target.served_name, target.backend_class, target.engine_params) == ("readers", "pipeline", {})
    assert target.secret_names == ["KEY"]
    shown = public_spec(spec_of(target))
    assert isinstance(shown.target, PipelineTarget)
    assert [each.target.kind for each in shown.target.stages[0].members] == ["endpoint", "model"]
    assert "word" not in shown.model_dump_json()
    voting = spec_of(pipeline(stage("read", "small", "large", aggregation="vote")))
    assert public_spec(voting) == voting
    assert PipelineTarget.model_validate_json(target.model_dump_json()) == target


def test_its_identity_has_its_stages() -> None:
    spec = spec_of()
    known = identify(
        spec, metric=spec.metrics[0], extractor=ExtractorSpec(), manifest_id=None, engines=(), environment=""
    )
    assert isinstance(known["weights"], dict)
    assert known["weights"]["pipeline"] == "readers"


def test_a_stage_asks_at_least_one_model() -> None:
    with pytest.raises(ValidationError):
        stage("read")


NESTED = pipeline(
    stage("ask", "m"),
    stage("read/p/a/q/x", "m", inputs=("ask",), within="read/p/a/q"),
    stage(
        "read/p/a",
        "m",
        inputs=("ask",),
        within="read/p",
        inner=(inner("q", "read/p/a/q/x", is_optional=True),),
        aggregation="vote",
    ),
    stage("read/p/b", "m", inputs=("read/p/a",), within="read/p"),
    stage("read", "m", inputs=("ask",), inner=(inner("p", "read/p/b", position=0),), aggregation="vote", merger="j"),
)


def test_what_merges_needs_the_pipelines_in_its_stage_and_a_member_of_it_does_not() -> None:
    by_key = {asked.key: asked for asked in asked_models(NESTED)}
    member_needs = needed_by(NESTED, by_key["read", "member", "m"])
    merge_needs = needed_by(NESTED, by_key["read", "merge", "j"])
    assert [other.stage.id for other in member_needs] == ["ask"]
    assert [other.stage.id for other in merge_needs] == [
        "ask", "read/p/a/q/x", "read/p/a", "read/p/b", "read",
    ]  # fmt: skip


def test_a_stage_without_members_is_refused() -> None:
    with pytest.raises(ValidationError):
        StageSpec(id="read")


def test_the_members_of_a_stage_have_the_order_in_which_they_were_written() -> None:
    assert [each.name for each in NESTED.stage("read").answering] == ["p", "m"]


def test_a_model_in_an_optional_pipeline_is_dispensable_and_not_needed_by_the_pipelines_around_it() -> None:
    dispensable = {asked.stage.id: is_dispensable(NESTED, asked) for asked in asked_models(NESTED)}
    assert dispensable == {
        "ask": False, "read/p/a/q/x": True, "read/p/a": False, "read/p/b": False, "read": False,
    }  # fmt: skip
    assert [asked.stage.id for asked in models_within(NESTED, "read/p")] == ["read/p/a", "read/p/b"]
    assert [asked.stage.id for asked in models_within(NESTED, "read/p/a/q")] == ["read/p/a/q/x"]


def test_a_model_can_be_left_out_only_if_every_place_that_asks_it_can_do_without_it() -> None:
    target = pipeline(
        stage("see", member("a", is_optional=True), "b", member("c", is_optional=True), aggregation="vote"),
        stage(
            "read", "b", member("a", is_optional=True), member("d", is_optional=True),
            inputs=("see",), aggregation="synthesis", merger="d",
        ),
        stage("write", "c", inputs=("read",)),
    )  # fmt: skip
    left_out = {name: can_do_without(target, digest_of(model(name))) for name in "abcd"}
    assert left_out == {"a": True, "b": False, "c": False, "d": False}


def test_a_model_of_an_optional_pipeline_can_be_left_out() -> None:
    target = pipeline(
        stage("read/p/x", "a", within="read/p"),
        stage("read", "b", inner=(inner("p", "read/p/x", is_optional=True),), aggregation="vote"),
    )
    assert can_do_without(target, digest_of(model("a")))
    assert not can_do_without(target, digest_of(model("b")))


@pytest.mark.parametrize(
    ("roles", "sees_images", "is_refused"),
    [(["weights"], True, True), (["weights"], False, False), (["weights", "mmproj"], True, False), ([], True, False)],
    ids=["text only", "not asked to see", "with a projector", "files not known"],
)
def test_a_model_that_is_known_to_read_no_images_is_refused_them(
    roles: list[str], sees_images: bool, is_refused: bool
) -> None:
    files = tuple(ModelFile(role=role, location=f"/{role}.gguf", sha256="0" * 64) for role in roles)
    asked_about = MemberSpec(name="m", target=model("m", files=files), sees_images=sees_images)
    (asked,) = asked_models(pipeline(stage("read", asked_about)))
    refusal = refusal_of_images(asked)
    assert (refusal is not None) == is_refused
    if refusal is not None:
        assert ("m" in refusal[0].split(), "read." in refusal[1].split()) == (True, True)
