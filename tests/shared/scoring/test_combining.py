"""What the stages of a pipeline come to, what its models are asked, and how that is traced."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.pipelines import answered, member, pipeline, stage
from vlmhyperbench.domain.pipelines import PipelineTarget, asked_models
from vlmhyperbench.scoring.combining import NO_REPAIR, NOTHING_TO_MERGE, Combiner, Reply, shaped
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


def test_no_answer_is_a_failure_of_the_platform_only_if_every_model_failed_by_it() -> None:
    ours = Combiner(VOTE).answers(answered(read__a=FAILED, read__b=FAILED, read__c=FAILED))["read"]
    theirs = Combiner(VOTE).answers(answered(read__a="x", read__b=FAILED, read__c=FAILED))["read"]
    assert (ours.value, ours.status, ours.failure) == (None, "no_valid", "infrastructure")
    assert (theirs.value, theirs.status, theirs.failure) == (None, "no_quorum", "model")
    alone = Combiner(pipeline(stage("read", "a"))).answers(answered(read__a=FAILED))["read"]
    assert (alone.reason, alone.failure, alone.status) == ("timeout", "infrastructure", "failed")


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


def test_the_critical_path_adds_the_slowest_of_each_stage_and_what_merges() -> None:
    sample = answered(
        read__a=Reply(text="x", latency_ns=3),
        read__b=Reply(text="x", latency_ns=5),
        read__merge__m=Reply(text="x", latency_ns=7),
        write__w=Reply(text="x", latency_ns=11),
    )
    assert critical_path_ns(sample) == 23
    assert critical_path_ns(answered(read__a="x")) is None


def test_unknown_tokens_are_not_zero() -> None:
    assert tokens_of([None, None]) is None
    assert tokens_of([3, None, 4]) == 7


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
    assert trace["critical_path_ns"] == 5
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
