"""What a report says its numbers do not say."""

from __future__ import annotations

from tests.shared.reports.builders import evidence, fact, run_spec
from tests.shared.reports.timed import limits_of
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.specs import EndpointTarget, ImportTarget
from vlmhyperbench.reports.records import PhaseEvidence
from vlmhyperbench.reports.run_report import run_document
from vlmhyperbench_text_metrics import ExactMatch


def test_limitations_follow_from_the_numbers() -> None:
    metrics = (ExactMatch(),)
    rows = [fact(i, "a", "a", token_source="estimated") for i in range(3)]
    said = limits_of(run_document(evidence(rows, unreadable=2, metrics=metrics)))
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
    said = limits_of(run_document(evidence([fact(0, "a", "a")], unreadable=1, metrics=metrics, spec=spec)))
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
    document = run_document(
        evidence(rows, metrics=metrics, spec=spec, phases=[PhaseEvidence(no=1, kind="x", state="COMPLETE", count=None)])
    )
    assert len(limits_of(document).split(". ")) == 2
    assert "1 request in flight" in document.verdict[1]
    (performance,) = [section for section in document.sections if section.name == "performance"]
    assert "warm-up" not in performance.lead


def test_fewer_requests_than_streams_are_said() -> None:
    spec = run_spec(scenario=ScenarioSpec(in_flight=9))
    assert "only 3 requests for 9 streams" in limits_of(
        run_document(evidence([fact(i, "a", "a") for i in range(3)], spec=spec))
    )


def test_a_baseline_of_samples_that_are_measured_is_said() -> None:
    spec = run_spec(scenario=ScenarioSpec(kind="multi_stream", baseline_requests=2))
    assert "what the streams cost each other looks smaller" in limits_of(run_document(evidence(spec=spec)))
    alone = run_spec(scenario=ScenarioSpec(kind="multi_stream", baseline_requests=2, requests=1))
    assert "cost each other" not in limits_of(run_document(evidence(spec=alone)))
