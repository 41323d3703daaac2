"""The gates on speeds: when one fails, and what a failed gate makes invalid."""

from __future__ import annotations

from dataclasses import replace

import polars

from tests.shared.reports.builders import MS, claim, document_of, evidence, fact, performance_of
from tests.shared.reports.reading import figures_of, section_of, tables_of, values_of, words_of
from tests.shared.reports.timed import CLIENT, scenario, timed
from tests.shared.summaries.test_validity import bunched, open_loop
from tests.support.wording import Wording
from vlmhyperbench.domain.scenarios import ArrivalSpec, Slo
from vlmhyperbench.reports.sections.validity import reasons_of
from vlmhyperbench.reports.writers.json import to_json
from vlmhyperbench.summaries.records import Disturber


def test_a_run_whose_gates_all_hold_is_valid(wording: Wording) -> None:
    document = document_of(timed())
    table = tables_of(document)["validity"]
    assert values_of(table) == [
        ("0", "at most 0", "holds"),
        ("0.0 %", "at most 0.1 %", "holds"),
        ("0.0 %", "at most 0.1 %", "holds"),
        ("25.0 %", "at most 70 %", "holds"),
        ("0", "at most 0", "holds"),
        ("0.1", "at most 0.5", "holds"),
        ("0.1", "at most 1", "holds"),
    ]
    wording(words_of(table))
    assert document.headline[0]["validity"] == "valid"
    wording(section_of(document, "performance").lead)
    assert "INVALID" not in str(document)


def test_a_gate_that_does_not_hold_marks_every_number_that_it_voids(wording: Wording) -> None:
    run = timed(sent_ns=None)
    late = replace(run, facts=run.facts.with_columns(sent_ns=polars.col("scheduled_ns") + 3 * MS))
    document = document_of(late)
    section = section_of(document, "performance")
    tables = tables_of(section)
    assert values_of(tables["validity"])[5:] == [("3", "at most 0.5", "INVALID"), ("3", "at most 1", "INVALID")]
    wording(section.lead)
    wording(document.verdict[1])
    assert [tile.label for tile in document.tiles if tile.tone == "bad"] == [
        "latency, p50\u00a0· INVALID",
        "answers/s\u00a0· INVALID",
    ]
    assert tables["times"].title == "Times\u00a0· INVALID"
    lengths = {"prompt-tokens", "answer-tokens"}
    figures = figures_of(section).items()
    assert {name for name, figure in figures if not figure.title.endswith("\u00a0· INVALID")} == lengths
    assert document.headline[0]["validity"] == "invalid"


def test_in_a_closed_loop_answers_of_a_second_allow_the_client_ten_milliseconds() -> None:
    run = timed()
    slow = replace(
        run,
        facts=run.facts.with_columns(
            ttft_user_ns=polars.lit(209 * MS),
            latency_ns=polars.lit(1000 * MS),
            sent_ns=polars.col("scheduled_ns") + polars.lit(9 * MS),
        ),
    )
    assert values_of(tables_of(document_of(slow))["validity"])[5:] == [
        ("9", "at most 10", "holds"),
        ("9", "at most 10", "holds"),
    ]


def test_rare_late_sends_fail_only_the_gate_of_the_tail() -> None:
    rare = polars.when(polars.col("ordinal") < 2).then(40 * MS).otherwise(0)
    run = timed(150)
    late = replace(
        run,
        facts=run.facts.with_columns(
            sent_ns=polars.col("scheduled_ns") + rare,
            ttft_user_ns=polars.col("ttft_user_ns") + rare,
            latency_ns=polars.lit(100 * MS),
        ),
    )
    assert values_of(tables_of(document_of(late))["validity"])[5:] == [
        ("0.533", "at most 1", "holds"),
        ("40", "at most 1", "INVALID"),
    ]


def test_a_gate_that_was_not_recorded_is_not_known_and_voids_nothing(wording: Wording) -> None:
    document = document_of(timed(client=None))
    section = section_of(document, "performance")
    assert values_of(tables_of(section)["validity"])[3] == ("–", "at most 70 %", "not known")
    assert document.headline[0]["validity"] == "not known"
    assert "harness-cost" not in tables_of(section)
    wording(section.lead)


ROWS = [fact(i, "a", "a") for i in range(3)]
NEIGHBOUR = Disturber(claim_id="c1a1m000-1", run_id="r2222222-2", run_name="quiet")


def test_another_inference_on_the_machine_voids_the_speeds_and_is_named(wording: Wording) -> None:
    stranger = Disturber(claim_id="c3c3c3c3-3", run_id=None, run_name=None)
    run = evidence(ROWS, metrics=(), claims=[claim(client=CLIENT, disturbed_by=(NEIGHBOUR, stranger))])
    performance = performance_of(run)
    assert performance.state == "invalid"
    wording("\n".join(performance.validity.disturbers))
    document = document_of(run)
    assert document.headline[0]["validity"] == "invalid"
    for name in performance.validity.disturbers:
        assert name in section_of(document, "performance").lead
        assert name in document.verdict[1]
        assert name in to_json(document).decode()
    assert [tile.label for tile in document.tiles if tile.tone == "bad"] == [
        "latency, p50\u00a0· INVALID",
        "answers/s\u00a0· INVALID",
    ]


def test_requests_that_were_tried_again_void_the_speeds(wording: Wording) -> None:
    rows = [fact(i, "a", "a", tries=1 + (i == 0)) for i in range(100)]
    performance = performance_of(evidence(rows, metrics=(), claims=[claim(client=CLIENT)]))
    wording(reasons_of(performance))


def test_a_run_that_ended_early_has_requests_without_a_row(wording: Wording) -> None:
    early = replace(timed(), total=12)
    performance = performance_of(early)
    wording(reasons_of(performance))
    # A request that was never sent counts as one that never ends.
    p99 = performance.percentiles["latency_ms"][-1]
    assert (p99.failed, p99.adjusted) == (2, None)
    assert tables_of(document_of(early))["adjusted-times"].title.endswith("\u00a0· INVALID")


def test_the_sends_of_an_open_loop_that_miss_its_schedule_void_the_speeds(wording: Wording) -> None:
    wording(reasons_of(performance_of(bunched(open_loop()))))


def test_the_gates_of_a_preset_have_names_and_reasons_in_a_report(wording: Wording) -> None:
    closed = timed(64, spec=scenario(kind="multi_stream", in_flight=8, preset="official"))
    limits = Slo(limits_ms={"ttft_p99": 100.0})
    spec = scenario(kind="server", arrivals=ArrivalSpec(rate_per_s=20), requests=200, preset="official", slo=limits)
    for run in (closed, replace(open_loop(), spec=spec)):
        wording(words_of(tables_of(document_of(run))["validity"]))
        wording(reasons_of(performance_of(run)))
