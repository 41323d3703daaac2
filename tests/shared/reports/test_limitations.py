"""The limitations that a report states."""

from __future__ import annotations

import pytest

from tests.shared.reports.builders import claim, comparison_of, document_of, evidence, fact, run_spec
from tests.shared.reports.reading import limits_of, section_of
from tests.support.wording import Wording
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.specs import EndpointTarget, ImportTarget
from vlmhyperbench.reports.sections.limitations import (
    DECLARED,
    DEGRADED,
    LOADED_SMALLER,
    MEASURED_ONCE,
    ONE_AFTER_ANOTHER,
    add_limitations,
)
from vlmhyperbench.summaries.records import PhaseEvidence
from vlmhyperbench_text_metrics.exact_match import ExactMatch


def test_limitations_follow_from_the_numbers(wording: Wording) -> None:
    metrics = (ExactMatch(),)
    rows = [fact(i, "a", "a", token_source="estimated") for i in range(3)]
    wording(limits_of(document_of(evidence(rows, unreadable=2, metrics=metrics))))


def test_samples_of_a_file_whose_images_were_refused_are_counted(wording: Wording) -> None:
    metrics = (ExactMatch(),)
    target = ImportTarget(model_name="m", format="inspect", tool=None, answers="0" * 64, decoding={})
    spec = run_spec(metrics=metrics, target=target)
    wording(limits_of(document_of(evidence([fact(0, "a", "a")], unreadable=1, metrics=metrics, spec=spec))))


def test_a_large_repeated_single_stream_run_against_an_endpoint_has_few_limitations(wording: Wording) -> None:
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
    wording(limits_of(document))
    wording(document.verdict[1])
    wording(section_of(document, "performance").lead)


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
    assert ("‘another’" in limits_of(document_of(evidence(spec=spec, claims=[asked])))) is doubted


def test_a_run_with_fewer_requests_than_streams_says_so(wording: Wording) -> None:
    spec = run_spec(scenario=ScenarioSpec(in_flight=9))
    wording(limits_of(document_of(evidence([fact(i, "a", "a") for i in range(3)], spec=spec))))


def test_a_baseline_that_asks_samples_that_are_measured_later_is_a_limitation(wording: Wording) -> None:
    for requests in (None, 1):
        spec = run_spec(scenario=ScenarioSpec(kind="multi_stream", baseline_requests=2, requests=requests))
        wording(limits_of(document_of(evidence(spec=spec))))


def test_a_report_of_declared_devices_begins_with_that_and_lists_it(wording: Wording) -> None:
    gpu = {"kind": "gpu", "name": "H100", "uuid": "declared-box-0", "memory_bytes": 80}
    machine = {"cpu_model": "CPU", "cpu_threads": 2, "memory_total_bytes": 2**31, "devices": [gpu], "declared": True}
    document = document_of(evidence([fact(0, "a", "a")], claims=[claim(machine=machine)]))
    assert DECLARED.format(names="H100")[1:] in limits_of(document)
    assert "no hardware" in document.verdict[0]
    wording(document.verdict[0])
    assert "no hardware" not in document_of(evidence([fact(0, "a", "a")])).verdict[0]


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


def _once(*, in_turn: bool) -> str:
    """Return the limitation of runs that were timed once."""
    return MEASURED_ONCE.format(how=ONE_AFTER_ANOTHER if in_turn else "")


def test_runs_that_were_timed_one_after_another_are_told_from_others(wording: Wording) -> None:
    wording(_compared((0, 10), (10, 20), (20, 30)))
    assert _once(in_turn=True) in _compared((0, 10), (10, 20), (20, 30))
    for spans in ([(0, 10), (9, 20)], [(0, 100), (10, 20), (30, 40)], [(0, 10), (20, None)], [(None, None), (0, 1)]):
        assert _once(in_turn=False) in _compared(*spans)
    assert _once(in_turn=False) in _compared((0, 10), (10, 20), anchor_wall_ns=None)


def test_a_claim_that_sent_nothing_does_not_count_as_overlapping() -> None:
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
    assert _once(in_turn=True) in limits_of(comparison_of("e", "demo", "DONE", runs))


def test_warnings_of_the_engines_are_limitations_each_once() -> None:
    untried = "The adapter was tried with vllm 0.32, but not with 0.40."
    claims = [claim(engine={"name": "vllm", "version": "0.40", "argv": [], "warnings": [untried]}) for _ in range(2)]
    assert limits_of(document_of(evidence(claims=claims))).count(untried) == 1


def test_later_limitations_are_added_below_those_of_the_report() -> None:
    document = document_of(evidence([fact(0, "a", "a")]))
    assert add_limitations(document, []) == document
    later = add_limitations(document, ["failed later."])
    assert limits_of(later) == f"{limits_of(document)}\nFailed later."


def test_what_was_given_up_to_fit_is_listed_and_a_lossy_step_is_called_degraded() -> None:
    steps = [
        {"rung": "fewer parallel slots", "before": "parallel=4", "after": "parallel=1", "is_lossy": False},
        {"rung": "KV cache in q8_0", "before": "cache_type=f16", "after": "cache_type=q8_0", "is_lossy": True},
    ]
    limits = limits_of(document_of(evidence([fact(0, "a", "a")], claims=[claim(environment={"fallbacks": steps})])))
    smaller = "fewer parallel slots (parallel=4 → parallel=1)"
    degraded = "KV cache in q8_0 (cache_type=f16 → cache_type=q8_0)"
    assert LOADED_SMALLER.format(steps=smaller)[1:] in limits
    assert DEGRADED.format(steps=degraded)[1:] in limits
    assert DEGRADED[1:12] not in limits_of(document_of(evidence([fact(0, "a", "a")])))
