"""Which gates shut, and what a shut gate voids."""

from __future__ import annotations

from dataclasses import replace

import numpy
import polars

from tests.shared.reports.builders import MS, claim, document_of, evidence, fact, performance_of
from tests.shared.reports.timed import CLIENT, cells_of, chapter_of, figures_of, scenario, table_of, timed
from vlmhyperbench.domain.scenarios import ArrivalSpec
from vlmhyperbench.reports.document import Table
from vlmhyperbench.reports.sections.validity import reasons_of
from vlmhyperbench.reports.writers.json import to_json
from vlmhyperbench.summaries.records import Disturber


def test_a_run_whose_gates_all_hold_is_valid_and_nothing_is_said_to_be_void() -> None:
    document = document_of(timed())
    chapter = chapter_of(document)
    assert cells_of(table_of(chapter, "validity")) == [
        ("requests without a row", "0", "at most 0", "holds"),
        ("share of requests that failed", "0.0 %", "at most 0.1 %", "holds"),
        ("share of requests that were tried again", "0.0 %", "at most 0.1 %", "holds"),
        ("busiest measuring process, share of a core", "25.0 %", "at most 70 %", "holds"),
        ("other inferences on its machine meanwhile", "0", "at most 0", "holds"),
        ("mean from free to sent, ms", "0.1", "at most 0.5", "holds"),
        ("of it in the p99 of TTFT, ms", "0.1", "at most 1", "holds"),
    ]
    assert document.headline[0]["validity"] == "valid"
    assert chapter.lead.startswith("Scenario offline: a closed loop")
    assert "INVALID" not in str(document)


def test_a_gate_that_does_not_hold_is_said_beside_every_number_that_it_voids() -> None:
    run = timed(sent_ns=None)
    late = replace(run, facts=run.facts.with_columns(sent_ns=polars.col("scheduled_ns") + 3 * MS))
    document = document_of(late)
    chapter = chapter_of(document)
    assert cells_of(table_of(chapter, "validity"))[5:] == [
        ("mean from free to sent, ms", "3", "at most 0.5", "INVALID"),
        ("of it in the p99 of TTFT, ms", "3", "at most 1", "INVALID"),
    ]
    why = "the client took 3 ms before each request (0.5 ms may be) and 3 ms of the p99 of TTFT are the client's (1 ms"
    assert chapter.lead.replace("\u00a0", " ").startswith(f"INVALID: {why} may be), so no speed")
    assert document.verdict[1].startswith("INVALID as a measurement of speed, since the client took")
    assert [tile.label for tile in document.tiles if tile.tone == "bad"] == [
        "latency, p50\u00a0· INVALID",
        "answers/s\u00a0· INVALID",
    ]
    assert table_of(chapter, "times").title == "Times\u00a0· INVALID"
    lengths = {"prompt-tokens", "answer-tokens"}
    assert {name for name, one in figures_of(chapter).items() if not one.title.endswith("\u00a0· INVALID")} == lengths
    assert document.headline[0]["validity"] == "invalid"


def test_answers_of_a_second_allow_a_client_of_ten_milliseconds_in_a_closed_loop() -> None:
    run = timed()
    slow = replace(
        run,
        facts=run.facts.with_columns(
            ttft_user_ns=polars.lit(209 * MS),
            latency_ns=polars.lit(1000 * MS),
            sent_ns=polars.col("scheduled_ns") + polars.lit(9 * MS),
        ),
    )
    assert [row[1:] for row in cells_of(table_of(chapter_of(document_of(slow)), "validity"))[5:]] == [
        ("9", "at most 10", "holds"),
        ("9", "at most 10", "holds"),
    ]


def test_late_sends_that_are_rare_show_in_the_tail_alone() -> None:
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
    assert [row[1:] for row in cells_of(table_of(chapter_of(document_of(late)), "validity"))[5:]] == [
        ("0.533", "at most 1", "holds"),
        ("40", "at most 1", "INVALID"),
    ]


def test_a_closed_loop_whose_answers_have_no_first_token_is_held_to_its_mean() -> None:
    run = timed()
    whole = replace(run, facts=run.facts.with_columns(ttft_user_ns=polars.lit(None, polars.Int64)))
    assert [gate.name for gate in performance_of(whole).gates[5:]] == ["send_lag_mean_ms"]


def test_what_no_claim_recorded_is_not_known_and_voids_nothing() -> None:
    document = document_of(timed(client=None))
    chapter = chapter_of(document)
    assert cells_of(table_of(chapter, "validity"))[3][1:] == ("–", "at most 70 %", "not known")
    assert chapter.lead.startswith("Whether the speeds count is not known to the end; not recorded: busiest measuring")
    assert "What measuring took was not recorded." in chapter.lead
    assert document.headline[0]["validity"] == "not known"
    assert "harness-cost" not in {block.name for block in chapter.blocks if isinstance(block, Table)}


def test_one_claim_that_did_not_record_its_share_leaves_it_unknown() -> None:
    rows = [fact(0, "a", "a"), fact(1, "a", "a", claim_id="other")]
    both = [claim(client=CLIENT), claim(id="other", job_id="b")]
    performance = performance_of(evidence(rows, claims=both, metrics=()))
    assert [gate.name for gate in performance.gates if gate.value is None] == ["client_busy_share"]
    assert performance.harness is not None
    assert (performance.harness.recorded, performance.harness.claims, performance.harness.core_share) == (1, 2, None)


ROWS = [fact(i, "a", "a") for i in range(3)]
NEIGHBOUR = Disturber(claim_id="c1a1m000-1", run_id="r2222222-2", run_name="quiet")


def test_another_inference_on_the_machine_voids_the_speeds_and_is_named() -> None:
    stranger = Disturber(claim_id="c3c3c3c3-3", run_id=None, run_name=None)
    run = evidence(ROWS, metrics=(), claims=[claim(client=CLIENT, disturbed_by=(NEIGHBOUR, stranger))])
    performance = performance_of(run)
    assert performance.state == "invalid"
    assert performance.validity.disturbers == (
        "the run quiet (r2222222, claim c1a1m000)",
        "a run of another project (claim c3c3c3c3)",
    )
    document = document_of(run)
    assert document.headline[0]["validity"] == "invalid"
    for name in performance.validity.disturbers:
        assert name in chapter_of(document).lead
        assert name in document.verdict[1]
        assert name in to_json(document).decode()
    assert [tile.label for tile in document.tiles if tile.tone == "bad"] == [
        "latency, p50\u00a0· INVALID",
        "answers/s\u00a0· INVALID",
    ]


def test_one_inference_that_disturbed_two_shards_is_counted_once() -> None:
    rows = [fact(0, "a", "a"), fact(1, "a", "a", claim_id="other")]
    both = [claim(client=CLIENT, disturbed_by=(NEIGHBOUR,)), claim(id="other", job_id="b", disturbed_by=(NEIGHBOUR,))]
    gates = {gate.name: gate.value for gate in performance_of(evidence(rows, claims=both)).gates}
    assert gates["disturbers"] == 1


def test_where_no_claim_recorded_what_it_stood_on_nobody_knows_whether_it_was_disturbed() -> None:
    rows = [fact(0, "a", "a"), fact(1, "a", "a", claim_id="other")]
    both = [claim(client=CLIENT), claim(id="other", job_id="b", client=CLIENT, disturbed_by=None)]
    performance = performance_of(evidence(rows, claims=both, metrics=()))
    assert [gate.name for gate in performance.gates if gate.value is None] == ["disturbers"]
    assert performance.state == "not known"


def test_samples_that_could_not_be_asked_are_no_failures_of_the_target() -> None:
    rows = [fact(0, "a", "a"), fact(1, None, "a", error_code="unreadable_sample", sent_ns=None, scheduled_ns=None)]
    performance = performance_of(evidence(rows, metrics=(), claims=[claim(client=CLIENT)]))
    assert (performance.state, performance.failed) == ("valid", 0)


def test_requests_that_were_tried_again_void_the_speeds() -> None:
    rows = [fact(i, "a", "a", tries=1 + (i == 0)) for i in range(100)]
    performance = performance_of(evidence(rows, metrics=(), claims=[claim(client=CLIENT)]))
    assert reasons_of(performance).replace("\u00a0", " ") == "1.0 % of the requests were tried again (0.1 % may)"


def test_a_run_that_ended_early_has_requests_without_a_row() -> None:
    early = replace(timed(), total=12)
    performance = performance_of(early)
    assert reasons_of(performance) == "2 requests have no row"
    # Who waits for one that nobody asked waits for ever.
    p99 = performance.percentiles["latency_ms"][-1]
    assert (p99.failed, p99.adjusted) == (2, None)
    assert table_of(chapter_of(document_of(early)), "adjusted-times").title.endswith("\u00a0· INVALID")


def test_an_open_loop_is_held_against_its_schedule() -> None:
    instants = numpy.cumsum(numpy.random.default_rng(1).exponential(0.05e9, 200)).astype(int).tolist()
    spec = scenario(kind="server", arrivals=ArrivalSpec(rate_per_s=20), requests=200)
    rows = [fact(i, "a", "a", scheduled_ns=at, sent_ns=at, stream_end_ns=at + 20 * MS) for i, at in enumerate(instants)]
    run = evidence(rows, spec=spec, metrics=(), claims=[claim(client=CLIENT)])
    good = performance_of(run)
    assert [gate.name for gate in good.gates[5:]] == [
        *("send_lag_p99_ms", "rate_error_share", "dispersion_error", "sends_like_process_p"),
    ]
    assert good.state == "valid"
    bunched = run.facts.with_columns(sent_ns=polars.col("scheduled_ns") // (500 * MS) * (500 * MS))
    bad = performance_of(replace(run, facts=bunched))
    assert "the gaps between sends are not those of the process (p < 0.001)" in reasons_of(bad)
