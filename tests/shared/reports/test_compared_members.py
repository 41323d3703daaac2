"""What of a pipeline is compared: its last stage of several models, and their answers as a vote counts them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.shared.reports.builders import document_of, run_spec
from tests.shared.reports.ensembles import ANSWERS, SAMPLES, VOTE, found, pipeline, rows_of, run_of
from tests.shared.reports.reading import tables_of
from tests.support.wording import Wording
from vlmhyperbench.domain.pipelines import (
    AggregationSpec,
    MemberSpec,
    PipelineTarget,
)
from vlmhyperbench.domain.specs import EndpointTarget
from vlmhyperbench.reports.document import Cases, Facts
from vlmhyperbench.reports.ensembles import ensemble_evidence
from vlmhyperbench.reports.sections.ensemble import ensemble_section
from vlmhyperbench.summaries.summarising import summarise_run


def test_members_are_scored_as_the_vote_counts_them() -> None:
    """Alone they think and are wrong; without the reasoning each is as right as the vote."""
    thinking = {name: [f"<think>maybe not</think>\n{text}" for text in texts] for name, texts in ANSWERS.items()}
    thought, plain = found(run_of(VOTE, thinking)), found(run_of(VOTE, ANSWERS))
    assert (thought.uplift, thought.oracles, thought.values) == (plain.uplift, plain.oracles, plain.values)
    assert thought.agreement == plain.agreement
    section = ensemble_section(summarise_run(run_of(VOTE, thinking)))
    assert section is not None
    assert "as the stage read counted them, without reasoning" in tables_of(section)["ensemble-members"].note


OBJECT = {"type": "object", "properties": {"total": {"type": "number"}, "city": {"type": "string"}}}


@pytest.mark.parametrize(
    "aggregation",
    [AggregationSpec(class_path="vote", params={"scope": "field"}), AggregationSpec(class_path="concat"), "synthesis"],
)
def test_equal_json_agrees_however_it_is_written_and_combined(aggregation: AggregationSpec | str) -> None:
    """The second sample of a vote by field falls back, since its object is not valid, and has keys of the same kind."""
    merger = MemberSpec(name="merger", target=EndpointTarget(endpoint="http://merger.example/v1", model_name="merger"))
    used = AggregationSpec(class_path="synthesis", merger=merger) if isinstance(aggregation, str) else aggregation
    target = pipeline(used, *ANSWERS)
    response: dict[str, Any] = {"type": "json_schema", "json_schema": {"name": "it", "schema": OBJECT}}
    (stage,) = target.stages
    target = target.model_copy(update={"stages": (stage.model_copy(update={"response_format": response}),)})
    answers: dict[str, list[Any]] = {
        "good": ['{"total": 1, "city": "Rome"}', '{"total": "x"}', "It is [1]."],
        "fair": ['{"city":"Rome","total":1.0}', '```json\n{"total":"x"}\n```', "it is  [1]."],
        "poor": ['<think>{"a": 1}</think>{"total":1, "city":"Rome"}', '{ "total": "x" }', "It was [1]."],
        "merger": ["?", json.dumps({"total": 1}), "?"],
    }
    ensemble = found(run_of(target, answers))
    assert ensemble.agreement is not None
    assert (ensemble.agreement.samples, ensemble.agreement.unanimous) == (3, 2)
    assert ensemble.agreement.value is not None
    # Of 9 answers 3, 3, 2 and 1 are equal; one sample disagrees by (9 - 4 - 1) / 2.
    assert ensemble.agreement.value == pytest.approx(1 - 8 * 2 / (81 - 9 - 9 - 4 - 1))


def test_similar_answers_that_a_vote_counts_as_one_agree() -> None:
    fuzzy = pipeline(AggregationSpec(class_path="vote", params={"equivalence": "fuzzy"}), "good", "fair")
    answers: dict[str, list[Any]] = {"good": ["the blue house", "no"], "fair": ["the blue houses", "yes"]}
    ensemble = found(run_of(fuzzy, answers))
    assert ensemble.agreement is not None
    assert ensemble.agreement.unanimous == 1


def two_stages() -> PipelineTarget:
    """Three read and vote; one writes the answer of theirs."""
    writer = pipeline(None, "writer").stages[0].model_copy(update={"id": "answer", "inputs": ("read",)})
    return VOTE.model_copy(update={"stages": (*VOTE.stages, writer)})


def test_the_last_stage_of_several_models_is_compared_where_one_model_answers(wording: Wording) -> None:
    run = run_of(two_stages(), {**ANSWERS, "writer": ["wrong"] * SAMPLES})
    ensemble, alone = found(run), found(run_of(VOTE, ANSWERS))
    assert (ensemble.stage, ensemble.is_last) == ("read", False)
    assert (ensemble.uplift, ensemble.oracles, ensemble.values) == (alone.uplift, alone.oracles, alone.values)
    assert (ensemble.agreement, ensemble.calibration) == (alone.agreement, alone.calibration)
    assert (ensemble.costs, [step.model for step in ensemble.asked]) == (alone.costs, [*ANSWERS, "writer"])
    assert ensemble.verdict is not None
    wording(ensemble.verdict.quality)
    document = document_of(run)
    section = ensemble_section(summarise_run(run))
    assert section is not None
    wording(tables_of(section)["ensemble-members"].note)
    (facts,) = (block for block in section.blocks if isinstance(block, Facts))
    assert dict(facts.items)["Compared stage"] == "read"
    (cases,) = (block for section in document.sections for block in section.blocks if isinstance(block, Cases))
    assert [(answer.run, bool(answer.score)) for answer in cases.items[0].answers] == [
        ("read: good", True),
        ("read: fair", True),
        ("read: poor", True),
        ("answer: writer", False),
        ("result", True),
    ]


def test_a_stage_before_the_last_is_not_compared_without_scores() -> None:
    target = two_stages()
    rows = rows_of(target, {**ANSWERS, "writer": ["wrong"] * SAMPLES})
    unscored = ensemble_evidence(rows, run_spec(target=target))
    assert (unscored.stage, unscored.result) == ("read", None)
