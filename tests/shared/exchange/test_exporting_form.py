"""What the API says of a run becomes the exported form: nothing is made up, and nothing is lost."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.shared.exchange.exported_run import (
    EXAMPLE,
    METRICS,
    RUN,
    SHOWN,
    exported,
    measure,
    result,
    run,
    samples,
    spec,
)
from tests.support.wording import Wording
from vlmhyperbench.domain.specs import EndpointTarget, ExtractorSpec
from vlmhyperbench.errors import Conflict, NotReady
from vlmhyperbench.exchange.exporting import exported_samples
from vlmhyperbench.wire.results import DamagedFile, SentPrompt


@pytest.mark.parametrize("state", ["QUEUED", "INDEXED", "RUNNING"])
def test_a_run_that_has_not_ended_is_refused(state: str, wording: Wording) -> None:
    with pytest.raises(NotReady) as refused:
        exported(run(state=type(run().state)(state)))
    wording(refused.value, RUN=RUN)


@pytest.mark.parametrize("state", ["SUCCEEDED", "PARTIAL", "FAILED", "CANCELLED"])
def test_a_run_that_has_ended_anyhow_is_exported(state: str) -> None:
    assert exported(run(state=type(run().state)(state))).state == state


def test_a_run_without_an_answer_is_refused_with_its_reason(wording: Wording) -> None:
    detail = run(state=type(run().state)("FAILED"), reason="no model", done=0)
    with pytest.raises(Conflict) as refused:
        list(exported_samples(detail, [[]]))
    wording(refused.value)


def test_a_cancelled_run_says_how_many_answers_do_not_count(wording: Wording) -> None:
    detail = run(state=type(run().state)("CANCELLED"), done=245)
    with pytest.raises(Conflict) as refused:
        list(exported_samples(detail, [[]]))
    wording(refused.value)


def test_measures_stand_in_the_order_of_the_spec_the_first_extractor_first() -> None:
    given_ones = [
        measure("exact_match"),
        measure("anls", 0.5, extractor="json_repaired@1"),
        measure("anls", field="date"),
        measure("anls"),
    ]
    (sample,) = samples([result(measures=given_ones)])
    found = [(m.metric, m.extractor, m.field) for m in sample.measures]
    assert found == [
        ("anls", "text@1", None),
        ("anls", "text@1", "date"),
        ("anls", "json_repaired@1", None),
        ("exact_match", "text@1", None),
    ]
    assert [m.metric for m in sample.whole("text@1")] == ["anls", "exact_match"]


def test_a_measure_has_the_version_that_the_spec_pins() -> None:
    (sample,) = samples([result(measures=[measure("exact_match"), measure("unknown")])])
    assert [(m.metric, m.version) for m in sample.measures] == [("exact_match", "2.0.0"), ("unknown", None)]


def test_two_profiles_of_one_metric_are_named_apart() -> None:
    strict = METRICS[0].model_copy(update={"profile": "strict"})
    detail = run(pinned=spec(metrics=(*METRICS, strict)))
    (sample,) = samples([result(measures=[measure("anls"), measure("anls", profile="strict")])], detail)
    assert [m.key for m in sample.measures] == ["anls@paper", "anls@strict"]


def test_what_could_not_be_read_is_invalid_and_of_the_rest_nobody_says_so() -> None:
    (sample,) = samples([result(measures=[measure("anls", None), measure("exact_match")])])
    assert [m.is_invalid for m in sample.measures] == [True, None]


def test_parsed_answers_are_what_the_extractors_read() -> None:
    found = samples()
    assert found[1].parsed == {"text@1": '{"a": 1}', "json_repaired@1": '{"a": 1}'}
    assert found[0].parsed == {"text@1": "blue", "json_repaired@1": None}
    assert found[3].parsed == {}


def test_what_an_extractor_of_another_version_read_is_unknown() -> None:
    newer = ExtractorSpec(name="json_repaired", version=99)
    (sample,) = samples([result()], run(pinned=spec(extractors=(ExtractorSpec(), newer))))
    assert sample.parsed == {"text@1": "blue"}


def test_the_prompt_is_as_it_was_sent_with_its_examples() -> None:
    sent = SentPrompt(system_prompt="Be brief.\0", user_prompt="Q: box 7?", examples=[EXAMPLE])
    (sample,) = samples([result(7, prompt=sent)])
    assert (sample.system_prompt, sample.user_prompt) == ("Be brief.\N{REPLACEMENT CHARACTER}", "Q: box 7?")
    [example] = sample.examples
    assert (example.key, example.user_prompt, example.images, example.answer) == ("t1", "Q: box 1?", (SHOWN,), "red")


def test_a_prompt_that_is_not_stored_is_unknown() -> None:
    (sample,) = samples([result(7)])
    assert (sample.system_prompt, sample.user_prompt, sample.examples) == (None, None, ())


def test_scores_come_from_the_report_in_the_order_of_the_spec(wording: Wording) -> None:
    first, second = exported().headline
    assert (first.metric, first.profile, first.version, first.value, first.n) == ("anls", "paper", "1.0.0", 0.7, 2)
    wording(first.gap)
    assert (second.key, second.value, second.gap) == ("exact_match", 0.5, "")


def test_a_run_without_a_report_has_no_scores() -> None:
    assert exported(run(headline=None)).headline == ()


def test_an_endpoint_leaves_without_what_could_be_secret() -> None:
    target = EndpointTarget(endpoint="https://me:secret@host/v1?key=hidden", model_name="m")
    text = str(exported(run(pinned=spec(target=target))).spec)
    assert "host/v1" in text
    assert "secret@" not in text
    assert "hidden" not in text


def test_the_stamp_of_a_run_fits_a_files_name() -> None:
    assert exported().stamp == "2026-01-02T03-05-05.250000"


def test_nul_stays_only_in_what_the_model_wrote() -> None:
    (sample,) = samples([result(0, "a\x00", reasoning="b\x00", question="c\x00", references=["d\x00"], key="e\x00")])
    assert (sample.text, sample.reasoning) == ("a\x00", "b\x00")
    fffd = "\N{REPLACEMENT CHARACTER}"
    assert (sample.question, sample.references, sample.key) == (f"c{fffd}", (f"d{fffd}",), f"e{fffd}")


@pytest.mark.parametrize("holds", ["answer", "scores"])
def test_a_run_whose_answers_or_scores_are_damaged_is_refused(holds: Literal["answer", "scores"]) -> None:
    with pytest.raises(Conflict, match="runs/a") as refused:
        samples([result(0), result(1, damaged=[_damaged(holds)])])
    assert (refused.value.code, refused.value.cure) == ("storage_corrupt", "cure")


def _damaged(holds: Literal["answer", "scores"]) -> DamagedFile:
    return DamagedFile(holds=holds, key="runs/a", message="runs/a is missing", cure="cure")


def test_a_sample_that_nobody_knows_any_more_is_named_by_its_place() -> None:
    (sample,) = samples([result(7, key=None, question=None, references=[], group={})])
    assert (sample.key, sample.question, sample.user_prompt) == ("7", None, None)
