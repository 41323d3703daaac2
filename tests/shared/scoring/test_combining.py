"""What the stages of a pipeline come to, what its models are asked, and how that is traced."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.pipelines import answered, inner, member, model, pipeline, stage
from vlmhyperbench.domain.pipelines import AggregationSpec, MemberSpec, PipelineTarget, StageSpec, asked_models
from vlmhyperbench.scoring.combining import NO_REPAIR, NOTHING_TO_MERGE, Asked, Combiner, Reply, shaped
from vlmhyperbench.scoring.reasoning import without_reasoning
from vlmhyperbench.scoring.traces import critical_path_ns, tokens_of, trace_of
from vlmhyperbench_sdk.errors import InvalidInput, PluginFailure
from vlmhyperbench_sdk.types import Prompt

FAILED = Reply(error="timeout")
VOTE = pipeline(stage("read", "a", "b", "c", aggregation="vote"))
MERGED = pipeline(stage("read", "a", "b", aggregation="synthesis", merger="m"))
REPORT = pipeline(
    stage("read", "a", "b", aggregation="vote"),
    stage("write", "w", inputs=("read",), instructions="Write it down.", system_prompt="Be brief."),
)
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": json.dumps({"type": "object"})}}


def asked_in(target: PipelineTarget, label: str):
    return next(asked for asked in asked_models(target) if asked.label == label)


def test_the_answer_of_one_model_is_that_of_the_stage_word_for_word() -> None:
    answer = Combiner(pipeline(stage("read", "a"))).answers(answered(read__a=" <think>hm</think> x "))["read"]
    assert (answer.value, answer.status, answer.aggregated) == (" <think>hm</think> x ", "ok", None)


def test_a_vote_decides_and_tells_who_dissents() -> None:
    answer = Combiner(VOTE).answers(answered(read__a="x", read__b="<think>y?</think>X.", read__c="y"))["read"]
    assert answer.aggregated is not None
    assert (answer.value, answer.aggregated.dissent) == ("x", ("c",))
    assert answer.aggregated.confidence == pytest.approx(2 / 3)


def test_a_model_whose_step_failed_has_no_weight_and_one_that_failed_for_a_sample_keeps_it() -> None:
    absent = Combiner(VOTE).answers(answered(read__a="x"))["read"].aggregated
    failed = Combiner(VOTE).answers(answered(read__a="x", read__b="x", read__c=FAILED))["read"].aggregated
    assert absent is not None
    assert failed is not None
    assert (absent.confidence, failed.confidence) == (1.0, pytest.approx(2 / 3))


def test_no_answer_is_a_failure_of_the_platform_where_a_model_that_it_lost_might_have_given_one() -> None:
    gave_up = Reply(error="timeout", failure="model")
    every = Combiner(VOTE).answers(answered(read__a=FAILED, read__b=FAILED, read__c=FAILED))["read"]
    some = Combiner(VOTE).answers(answered(read__a="x", read__b=FAILED, read__c=gave_up))["read"]
    none = Combiner(VOTE).answers(answered(read__a="x", read__b=gave_up, read__c=gave_up))["read"]
    assert (every.value, every.status, every.failure) == (None, "no_valid", "infrastructure")
    assert (some.value, some.status, some.failure) == (None, "no_quorum", "infrastructure")
    assert (none.value, none.status, none.failure) == (None, "no_quorum", "model")
    alone = Combiner(pipeline(stage("read", "a"))).answers(answered(read__a=FAILED))["read"]
    assert (alone.reason, alone.failure, alone.status) == ("timeout", "infrastructure", "failed")


def test_a_model_that_was_not_asked_fails_by_whoever_failed_before_it() -> None:
    unasked = Reply(error="The stage read has no answer.")
    gave_up = Reply(error="timeout", failure="model")
    theirs = answered(read__a="x", read__b=gave_up, read__c=gave_up, write__w=unasked)
    ours = answered(read__a=FAILED, read__b=FAILED, read__c=FAILED, write__w=unasked)
    single = pipeline(VOTE.stages[0], stage("write", "w", inputs=("read",)))
    several = pipeline(VOTE.stages[0], stage("write", "w", "v", inputs=("read",), aggregation="vote"))
    for target in (single, several):
        assert Combiner(target).answers(theirs)["write"].failure == "model"
        assert Combiner(target).answers(ours)["write"].failure == "infrastructure"
    asked = answered(read__a="x", read__b="x", read__c="x", write__w=FAILED)
    assert Combiner(single).answers(asked)["write"].failure == "infrastructure"


def test_a_stage_without_an_answer_says_which_models_failed_or_why_its_template_did() -> None:
    failed = Combiner(VOTE).answers(answered(read__a=FAILED, read__b=FAILED, read__c=FAILED))["read"]
    assert failed.reason.endswith(": a: timeout; b: timeout; c: timeout")
    endless = "{% for m in members %}" * 18 + "{{ m.text }}" + "{% endfor %}" * 18
    target = pipeline(stage("read", "a", "b", aggregation="template", params={"template": endless}))
    refused = Combiner(target).answers(answered(read__a="x", read__b="y"))["read"]
    assert (refused.status, refused.reason == "the aggregation ended with invalid") == ("invalid", False)
    undecided = Combiner(VOTE).answers(answered(read__a="x", read__b=FAILED, read__c=FAILED))["read"]
    assert undecided.reason == "the aggregation ended with no_quorum"


def test_a_later_stage_is_asked_about_the_answer_before_with_its_own_words() -> None:
    combiner, asked = Combiner(REPORT), asked_in(REPORT, "write/w")
    assert combiner.prompt_of(asked, answered(read__a="x", read__b="x")) == Prompt(
        user="Write it down.\n\nx", system="Be brief."
    )
    refused = combiner.prompt_of(asked, answered(read__a=FAILED, read__b=FAILED))
    assert isinstance(refused, str)
    assert "read" in refused


def test_several_answers_are_joined_and_a_stage_may_forward_its_question() -> None:
    target = pipeline(
        stage("a", "m", output_mode="question_and_answer"), stage("b", "m"), stage("c", "m", inputs=("a", "b"))
    )
    sample = answered("Who?", a__m="I {{ 1 + 1 }}", b__m="you")
    prompt = Combiner(target).prompt_of(asked_in(target, "c/m"), sample)
    assert prompt == Prompt(user="Question:\nWho?\n\nAnswer:\nI {{ 1 + 1 }}\n\nyou")


def test_what_merges_sees_all_answers_and_its_answer_counts() -> None:
    combiner = Combiner(MERGED)
    merge, repair = asked_in(MERGED, "read/m (merge)"), asked_in(MERGED, "read/m (repair)")
    prompt = combiner.prompt_of(merge, answered(read__a="left", read__b="right"))
    assert isinstance(prompt, Prompt)
    assert "left" in prompt.user
    assert "right" in prompt.user
    whole = answered(read__a="left", read__b="right", read__merge__m="both")
    assert combiner.prompt_of(repair, whole) == NO_REPAIR
    assert combiner.answers(whole)["read"].value == "both"
    assert combiner.prompt_of(merge, answered(read__a=FAILED, read__b=FAILED)) == NOTHING_TO_MERGE
    assert combiner.answers(answered(read__a=FAILED, read__b=FAILED))["read"].status == "no_valid"


def test_an_invalid_merged_answer_is_asked_for_once_more_and_then_voted_on() -> None:
    target = pipeline(stage("read", "a", "b", aggregation="synthesis", merger="m", response_format=SCHEMA))
    combiner, repair = Combiner(target), asked_in(target, "read/m (repair)")
    invalid = answered(read__a='{"x": 1}', read__b='{"x": 1}', read__merge__m="[]")
    again = combiner.prompt_of(repair, invalid)
    assert isinstance(again, Prompt)
    assert "[]" in again.user
    fixed = answered(read__a="{}", read__b="{}", read__merge__m="[]", read__repair__m='{"y": 2}')
    assert combiner.answers(fixed)["read"].value == '{"y": 2}'
    assert combiner.answers(invalid)["read"].value == '{"x": 1}'
    assert combiner.prompt_of(repair, answered(read__a="{}", read__merge__m=FAILED)) == NO_REPAIR


def test_a_template_is_what_a_model_is_asked_where_one_merges() -> None:
    template = "{% for m in members %}{{ m.text }};{% endfor %}"
    target = pipeline(stage("read", "a", "b", aggregation="template", params={"template": template}, merger="m"))
    combiner, merge = Combiner(target), asked_in(target, "read/m (merge)")
    assert combiner.prompt_of(merge, answered(read__a="x", read__b="y")) == Prompt(user="x;y;")
    assert combiner.prompt_of(merge, answered(read__a=FAILED, read__b=FAILED)) == NOTHING_TO_MERGE
    assert combiner.answers(answered(read__a="x", read__b="y", read__merge__m="z"))["read"].value == "z"
    lost = combiner.answers(answered(read__a="x", read__b="y"))["read"]
    assert (lost.value, lost.failure) == (None, "infrastructure")


def test_an_answer_in_the_words_of_one_model_ends_as_that_model_did() -> None:
    cut, whole = Reply(text="x", finish_reason="length"), Reply(text="y", finish_reason="stop")
    assert Combiner(REPORT).answers(answered(read__a=whole, read__b=whole, write__w=cut))["write"].finish_reason == (
        "length"
    )
    assert Combiner(VOTE).answers(answered(read__a=cut, read__b=cut, read__c=cut))["read"].finish_reason is None
    merged = answered(read__a=whole, read__b=whole, read__merge__m=cut)
    assert Combiner(MERGED).answers(merged)["read"].finish_reason == "length"
    empty = Reply(text=" ", finish_reason="length")
    repaired = answered(read__a=cut, read__b=cut, read__merge__m=empty, read__repair__m=whole)
    assert Combiner(MERGED).answers(repaired)["read"].finish_reason == "stop"
    assert Combiner(MERGED).answers(answered(read__a=cut, read__merge__m=empty))["read"].finish_reason is None
    template = stage("read", "a", aggregation="template", params={"template": "{{ members[0].text }}"}, merger="m")
    assert Combiner(pipeline(template)).answers(merged)["read"].finish_reason == "length"


@pytest.mark.parametrize("on_invalid", ["vote", "first", "fail"])
def test_a_failure_of_the_platform_to_ask_what_merges_is_no_invalid_answer(on_invalid: str) -> None:
    merging = stage("read", "a", "b", aggregation="synthesis", merger="m", params={"on_invalid": on_invalid})
    combiner = Combiner(pipeline(merging))
    lost = combiner.answers(answered(read__a="x", read__b="x", read__merge__m=Reply(error="refused")))["read"]
    assert (lost.value, lost.reason, lost.failure) == (None, "refused", "infrastructure")
    absent = combiner.answers(answered(read__a="x", read__b="x"))["read"]
    assert (absent.value, absent.failure) == (None, "infrastructure")
    unrepaired = {"read__a": "x", "read__b": "x", "read__merge__m": " "}
    broken = combiner.answers(answered(**unrepaired, read__repair__m=Reply(error="refused")))["read"]
    assert (broken.value, broken.failure) == (None, "infrastructure")
    theirs = Reply(error="timeout", failure="model")
    unasked = Reply(error=NO_REPAIR)
    timed_out = answered(read__a="x", read__b="x", read__merge__m=theirs, read__repair__m=unasked)
    merged = combiner.answers(timed_out)["read"]
    assert (merged.value, merged.failure) == (None if on_invalid == "fail" else "x", "model")
    assert combiner.answers(answered(**unrepaired, read__repair__m=theirs))["read"].value == merged.value


def test_an_aggregation_that_is_not_one_or_misses_its_model_is_refused() -> None:
    with pytest.raises(PluginFailure):
        Combiner(pipeline(stage("read", "a", "b", aggregation="collections:OrderedDict")))
    with pytest.raises(InvalidInput):
        Combiner(pipeline(stage("read", "a", "b", aggregation="vote", params={"rule": "loudest"})))
    without = Combiner(pipeline(stage("read", "a", "b", aggregation="synthesis")))
    with pytest.raises(LookupError, match="read"):
        without.answers(answered(read__a="x", read__b="y"))


def test_a_stage_without_words_of_its_own_changes_no_prompt() -> None:
    prompt = Prompt(user="u", system="s")
    assert shaped(stage("read", "a"), prompt) == prompt


def test_reasoning_is_stripped_unless_nothing_is_left() -> None:
    assert without_reasoning("<THINK>no</THINK>yes<analysis>x</analysis>") == "yes"
    assert without_reasoning("<think>only</think>") == "<think>only</think>"
    assert without_reasoning("<think>never closed") == "<think>never closed"
    assert without_reasoning("\u0130<think>a</think>b") == "\u0130b"
    assert without_reasoning("\u0130<Think>a</Think>b") == "\u0130<Think>a</Think>b"


@given(st.text())
def test_a_text_without_tags_is_not_changed(text: str) -> None:
    assert without_reasoning(text.replace("<", "")) == text.replace("<", "")


def thinker(name: str, **changes: object) -> MemberSpec:
    marks = ({"begin": "[THINK]", "end": "[/THINK]"}, {"end": "So:"})
    return MemberSpec(name=name, target=model(name, reasoning_marks=marks, **changes))


def test_what_a_model_writes_around_its_reasoning_is_left_out_of_what_is_aggregated_and_forwarded() -> None:
    target = pipeline(
        stage("read", thinker("a"), "b", aggregation="vote"),
        stage("check", thinker("c"), inputs=("read",)),
        stage("write", thinker("d", strip_reasoning=True), inputs=("check",)),
    )
    sample = answered(
        read__a="Hm. so: Blue", read__b="Hm. so: blue", check__c="[think]x[/Think]yes", write__d="[THINK]x[/THINK]no"
    )
    combiner = Combiner(target)
    answers = combiner.answers(sample)
    assert answers["read"].aggregated is not None
    assert answers["read"].aggregated.n_valid == 2
    assert answers["read"].aggregated.support == 1
    assert (answers["check"].value, answers["write"].value) == ("[think]x[/Think]yes", "no")
    assert combiner.prompt_of(asked_in(target, "write/d"), sample) == Prompt(user="yes")


def test_reasoning_before_a_merged_answer_needs_no_repair() -> None:
    merges = AggregationSpec(class_path="synthesis", is_repaired=True, merger=thinker("m", strip_reasoning=True))
    target = pipeline(
        stage("read/p/x", thinker("a"), within="read/p"),
        StageSpec(
            id="read", members=(member("b"),), inner=(inner("p", "read/p/x"),), aggregation=merges,
            response_format=SCHEMA,
        ),
    )  # fmt: skip
    given = {"read/p/x": "{}", "read": "{}"}
    sample = in_stages(target, "Which?", **given)
    sample.replies["read", "merge", "m"] = Reply(text="[THINK]{[/THINK]{}")
    combiner = Combiner(target)
    assert combiner.prompt_of(asked_in(target, "read/m (repair)"), sample) == NO_REPAIR
    assert combiner.answers(sample)["read"].value == "{}"


def test_the_critical_path_adds_the_slowest_of_each_stage_and_what_merges() -> None:
    of = pipeline(stage("read", "a", "b", aggregation="synthesis", merger="m"), stage("write", "w", inputs=("read",)))
    sample = answered(
        read__a=Reply(text="x", latency_ns=3),
        read__b=Reply(text="x", latency_ns=5),
        read__merge__m=Reply(text="x", latency_ns=7),
        write__w=Reply(text="x", latency_ns=11),
    )
    assert critical_path_ns(of, sample) == 23
    assert critical_path_ns(of, answered(read__a="x")) is None
    hangs = {"read__a": Reply(text="x", latency_ns=3), "read__b": Reply(error="timeout", failure="model")}
    assert critical_path_ns(of, answered(**hangs)) is None
    assert critical_path_ns(of, answered(**hangs | {"read__b": Reply(error="connection")})) is None
    assert critical_path_ns(of, answered(**hangs | {"read__b": "no time"})) is None
    not_asked = hangs | {"read__b": Reply(error="not asked", was_asked=False)}
    assert critical_path_ns(of, answered(**not_asked)) == 3


def test_stages_that_do_not_need_each_other_are_asked_at_one_time() -> None:
    target = pipeline(
        stage("see", "a"),
        stage("read", "b", inputs=("see",)),
        stage("check", "c", inputs=("see",)),
        stage("write", "w", inputs=("read", "check")),
    )
    times = {"see": 2, "read": 3, "check": 5, "write": 7}
    sample = in_stages(target, "Which?", **{name: Reply(text="x", latency_ns=ns) for name, ns in times.items()})
    assert critical_path_ns(target, sample) == 14


def test_unknown_tokens_are_not_zero() -> None:
    assert tokens_of([None, None]) is None
    assert tokens_of([3, None, 4]) is None
    assert tokens_of([]) is None
    assert tokens_of([3, 4]) == 7


def test_a_trace_tells_votes_members_times_and_tokens() -> None:
    heavy = member("b", weight=2.0)
    target = pipeline(stage("read", "a", heavy, "c", aggregation="vote"), stage("write", "w", inputs=("read",)))
    sample = answered(
        read__a=Reply(text="x", latency_ns=3, prompt_tokens=4, completion_tokens=1),
        read__b=FAILED,
        write__w=Reply(text="X!", latency_ns=2),
    )
    trace = trace_of(target, sample, Combiner(target).answers(sample))
    read, write = trace["stages"]
    assert trace["critical_path_ns"] is None, "the platform has lost a model that was asked"
    assert read["models"] == [
        {"name": "a", "role": "member", "weight": 1.0, "latency_ns": 3, "prompt_tokens": 4, "completion_tokens": 1},
        {
            "name": "b",
            "role": "member",
            "weight": 2.0,
            "latency_ns": None,
            "prompt_tokens": None,
            "completion_tokens": None,
            "error": "timeout",
        },
        {"name": "c", "role": "member", "weight": 1.0, "is_dropped": True},
    ]
    assert (read["id"], read["status"], read["n_valid"], read["support"]) == ("read", "ok", 1, 1.0)
    assert read["value"] == "x"
    assert "value" not in write
    assert "reason" not in write
    merged = answered(read__a="x", read__merge__m="y", read__repair__m=Reply(error=NO_REPAIR))
    (merging,) = trace_of(MERGED, merged, Combiner(MERGED).answers(merged))["stages"]
    assert [told["role"] for told in merging["models"]] == ["member", "member", "merge"]
    nothing = trace_of(target, answered(), Combiner(target).answers(answered()))
    assert nothing["stages"][0]["status"] == "no_valid"
    assert "reason" in nothing["stages"][1]


ASKED = "See.\n\nRead.\n\nWhich?"
NESTED = pipeline(
    stage("read/p/see", "a", instructions="See.\n\nRead.", within="read/p"),
    stage(
        "read/p/say", "b", inputs=("read/p/see",), within="read/p", aggregation="concat",
    ),
    stage(
        "read", "c", instructions="Read.", output_mode="question_and_answer",
        inner=(inner("p", "read/p/say", position=0, weight=3),), aggregation="vote",
    ),
    stage("write", "w", inputs=("read",)),
)  # fmt: skip


def test_a_pipeline_in_a_stage_answers_like_a_model_of_it() -> None:
    sample = in_stages(NESTED, ASKED, **{"read/p/see": "seen", "read/p/say": "blue", "read": "red"})
    answers = Combiner(NESTED).answers(sample)
    assert (answers["read/p/see"].value, answers["read/p/say"].value, answers["read"].value) == ("seen", "blue", "blue")
    assert answers["read"].aggregated is not None
    assert (answers["read"].aggregated.support, answers["read"].aggregated.dissent) == (3, ("c",))
    trace = trace_of(NESTED, sample, answers)
    assert trace["stages"][2]["pipelines"] == [{"name": "p", "weight": 3.0, "stage": "read/p/say"}]


def test_a_stage_forwards_the_question_of_the_pipeline_that_it_is_a_stage_of() -> None:
    sample = in_stages(NESTED, ASKED, **{"read/p/see": "seen", "read/p/say": "blue", "read": "blue"})
    combiner = Combiner(NESTED)
    write = next(asked for asked in asked_models(NESTED) if asked.stage.id == "write")
    assert combiner.prompt_of(write, sample) == Prompt(user="Question:\nRead.\n\nWhich?\n\nAnswer:\nblue")
    answers = combiner.answers(sample)
    assert combiner.question(NESTED.stage("read/p/say"), sample, answers) == ASKED
    assert combiner.question(NESTED.stage("write"), sample, answers) == "Read.\n\nWhich?"


def test_a_pipeline_in_a_later_stage_was_asked_the_answers_before_it() -> None:
    target = pipeline(
        stage("ask", "a"),
        stage("read/p/see", "b", inputs=("ask",), within="read/p"),
        stage("read", inputs=("ask",), inner=(inner("p", "read/p/see"),)),
    )
    combiner, sample = Combiner(target), in_stages(target, "Which?", **{"ask": "blue", "read/p/see": "yes"})
    answers = combiner.answers(sample)
    assert combiner.question(target.stage("read/p/see"), sample, answers) == "blue"
    assert answers["read"].value == "yes"
    nothing = in_stages(target, "Which?", **{"ask": Reply(error="broken"), "read/p/see": Reply(error="not asked")})
    answers = combiner.answers(nothing)
    assert combiner.question(target.stage("read/p/see"), nothing, answers) == ""
    assert (answers["read"].value, answers["read"].reason) == (None, "not asked")


def test_a_pipeline_in_a_stage_is_dropped_with_a_model_that_it_needs() -> None:
    sample = in_stages(NESTED, "Which?", **{"read/p/say": "blue", "read": "red"})
    answer = Combiner(NESTED).answers(sample)["read"]
    assert (answer.value, answer.aggregated and answer.aggregated.confidence) == ("red", 1.0)


def test_pipelines_in_a_stage_are_asked_beside_its_models() -> None:
    def took(ns: int) -> Reply:
        return Reply(text="x", latency_ns=ns)

    times = {"read/p/see": took(2), "read/p/say": took(3), "read": took(4), "write": took(7)}
    assert critical_path_ns(NESTED, in_stages(NESTED, "Which?", **times)) == 12


def in_stages(target: PipelineTarget, question: str, **given: str | Reply) -> Asked:
    """Make a sample from what the one model of each stage answered."""
    replies = {
        asked.key: reply if isinstance(reply, Reply) else Reply(text=reply)
        for asked in asked_models(target)
        if (reply := given.get(asked.stage.id)) is not None
    }
    return Asked(question=question, replies=replies)
