"""What a report says its numbers do not say."""

from __future__ import annotations

import pytest

from tests.shared.reports.builders import claim, comparison_of, document_of, evidence, fact, run_spec
from tests.shared.reports.timed import limits_of
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.specs import EndpointTarget, ImportTarget
from vlmhyperbench.reports.sections.limitations import add_limitations
from vlmhyperbench.summaries.records import PhaseEvidence
from vlmhyperbench_text_metrics import ExactMatch


def test_limitations_follow_from_the_numbers() -> None:
    metrics = (ExactMatch(),)
    rows = [fact(i, "a", "a", token_source="estimated") for i in range(3)]
    said = limits_of(document_of(evidence(rows, unreadable=2, metrics=metrics)))
    assert "Only 3 answers could be scored" in said
    assert "2 samples of the data set could not be asked" in said
    assert "asked once" in said
    assert "closed loop with 4 requests in flight" in said
    assert "The p99 rests on 3 requests" in said
    assert "shared the machine" in said
    assert "they are estimated" in said


def test_samples_of_a_file_whose_images_were_refused_are_counted() -> None:
    metrics = (ExactMatch(),)
    target = ImportTarget(model_name="m", format="inspect", tool=None, answers="0" * 64, decoding={})
    spec = run_spec(metrics=metrics, target=target)
    said = limits_of(document_of(evidence([fact(0, "a", "a")], unreadable=1, metrics=metrics, spec=spec)))
    assert "1 sample had an image or a text that was refused" in said


def test_a_large_repeated_single_stream_run_against_an_endpoint_has_fewer_of_them() -> None:
    metrics = (ExactMatch(),)
    spec = run_spec(
        metrics=metrics,
        target=EndpointTarget(endpoint="http://host/v1", model_name="remote"),
        scenario=ScenarioSpec(name="single-stream", kind="single_stream", warmup_requests=0),
    )
    spec = spec.model_copy(update={"decoding": spec.decoding.model_copy(update={"n": 2})})
    rows = [fact(i, "a", "a") for i in range(700)]
    document = document_of(
        evidence(rows, metrics=metrics, spec=spec, phases=[PhaseEvidence(no=1, kind="x", state="COMPLETE", count=None)])
    )
    assert len(limits_of(document).split(". ")) == 2
    assert "1 request in flight" in document.verdict[1]
    (performance,) = [section for section in document.sections if section.name == "performance"]
    assert "warm-up" not in performance.lead


@pytest.mark.parametrize(
    ("answer", "doubted"),
    [
        ({"data": [{"id": "another"}]}, True),
        ({"data": [{"id": "another"}, {"id": "remote"}]}, False),
        ({"data": []}, False),
        ({"data": "remote"}, False),
        (None, False),
    ],
)
def test_an_endpoint_that_does_not_list_the_model_is_doubted(answer: object, doubted: bool) -> None:
    spec = run_spec(target=EndpointTarget(endpoint="http://host/v1", model_name="remote"))
    asked = claim(engine={"name": "openai", "version": "unknown", "argv": [], "properties": {"/v1/models": answer}})
    said = limits_of(document_of(evidence(spec=spec, claims=[asked])))
    assert ("‘another’" in said) is doubted


def test_fewer_requests_than_streams_are_said() -> None:
    spec = run_spec(scenario=ScenarioSpec(in_flight=9))
    assert "only 3 requests for 9 streams" in limits_of(
        document_of(evidence([fact(i, "a", "a") for i in range(3)], spec=spec))
    )


def test_a_baseline_of_samples_that_are_measured_is_said() -> None:
    spec = run_spec(scenario=ScenarioSpec(kind="multi_stream", baseline_requests=2))
    assert "what the streams cost each other looks smaller" in limits_of(document_of(evidence(spec=spec)))
    alone = run_spec(scenario=ScenarioSpec(kind="multi_stream", baseline_requests=2, requests=1))
    assert "cost each other" not in limits_of(document_of(evidence(spec=alone)))


def _compared(*spans: tuple[int | None, int | None], **changes: object) -> str:
    runs = [
        evidence(
            [fact(i, "a", "a", claim_id=f"c{no}") for i in range(3)],
            name=f"run {no}",
            id=f"r{no}",
            claims=[claim(id=f"c{no}", sending_from_ns=start, sending_until_ns=end, **changes)],
        )
        for no, (start, end) in enumerate(spans)
    ]
    return limits_of(comparison_of("e", "demo", "DONE", runs))


def test_runs_are_said_to_be_timed_one_after_another_only_where_they_were() -> None:
    assert "timed once, one after another, and" in _compared((0, 10), (10, 20), (20, 30))
    for spans in ([(0, 10), (9, 20)], [(0, 100), (10, 20), (30, 40)], [(0, 10), (20, None)], [(None, None), (0, 1)]):
        said = _compared(*spans)
        assert "timed once, and" in said
        assert "one after another" not in said
    assert "one after another" not in _compared((0, 10), (10, 20), anchor_wall_ns=None)


def test_a_claim_that_sent_nothing_was_at_no_time() -> None:
    runs = [
        evidence([fact(0, "a", "a", claim_id="c0")], id="r0", claims=[claim(id="c0", sending_until_ns=10)]),
        evidence(
            [fact(0, "a", "a", claim_id="c1")],
            id="r1",
            name="other",
            claims=[
                claim(id="gone", job_id="gone", sending_from_ns=None, sending_until_ns=None),
                claim(id="c1", sending_from_ns=10, sending_until_ns=20),
            ],
        ),
    ]
    assert "one after another" in limits_of(comparison_of("e", "demo", "DONE", runs))


def test_what_became_known_since_the_report_was_made_stands_below_its_limitations() -> None:
    document = document_of(evidence([fact(0, "a", "a")]))
    assert add_limitations(document, []) == document
    later = add_limitations(document, ["the report ‘x’ could not be written."])
    assert "The report ‘x’ could not be written." in limits_of(later)
    assert limits_of(document) in limits_of(later)
