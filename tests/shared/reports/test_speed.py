"""The section on performance: its tables and figures, the cost of measuring, and what is not drawn and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars
import pytest

from tests.shared.reports.builders import (
    MS,
    claim,
    comparison_of,
    document_of,
    evidence,
    fact,
    facts_frame,
    performance_of,
)
from tests.shared.reports.reading import cells_of, figures_of, section_of, tables_of, values_of, words_of
from tests.shared.reports.timed import CLIENT, scenario, timed
from tests.support.wording import Wording
from vlmhyperbench.domain.scenarios import Slo
from vlmhyperbench.reports.document import Section
from vlmhyperbench.reports.sections.progress import progress_of
from vlmhyperbench.reports.sections.speed import load_figures
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench.summaries.summarising import summarise_run


def performance_section(run: RunEvidence) -> Section:
    return section_of(document_of(run), "performance")


def test_the_cost_of_measuring_is_stated_by_tokens_and_by_requests(wording: Wording) -> None:
    cost = tables_of(performance_section(timed(completion_tokens=200)))["harness-cost"]
    assert values_of(cost) == [
        ("2 s",),
        ("100 s",),
        ("200 s",),
        ("210.5 %",),
        ("25.0 %",),
        ("3 MiB",),
        ("0.5 s",),
        ("2",),
    ]
    wording(words_of(cost))


def test_the_cost_of_the_measuring_processes_has_rows_of_its_own_where_it_was_recorded(wording: Wording) -> None:
    client = CLIENT | {"measuring_cpu_s": 1.5, "measuring_peak_rss_bytes": 2**20}
    cost = tables_of(performance_section(timed(client=client)))["harness-cost"]
    assert {("1.5 s",), ("1 MiB",)} <= set(values_of(cost))
    wording(words_of(cost))


def test_a_percentile_has_the_interval_that_its_requests_allow(wording: Wording) -> None:
    times = tables_of(performance_section(timed(100)))["times"]
    assert values_of(times)[0] == (
        *("50.0", "50.0 (50.0 to 50.0)", "50.0 (50.0 to 50.0)", "50.0", "50.0"),
        "100",
    )
    wording(words_of(times))


def test_failures_are_the_slowest_in_a_table_of_their_own(wording: Wording) -> None:
    rows = [*(fact(i, "a", "a", latency_ns=(10 + i) * MS) for i in range(9)), fact(9, None, "a")]
    table = tables_of(performance_section(evidence(rows, metrics=())))["adjusted-times"]
    assert [row[:3] for row in values_of(table)[:3]] == [
        ("p50", "14.0", "14.0 (11.0 to 18.0)"),
        ("p90", "18.0", "18.0"),
        ("p99", "18.0", "–"),
    ]
    assert {row[-1] for row in values_of(table)} == {"1"}
    wording(words_of(table))


def test_progress_counts_requests_that_are_scheduled_sent_and_failed_in_each_bin() -> None:
    rows = [*(fact(i, "a", "a") for i in range(4)), fact(4, None, "a", stream_end_ns=450 * MS, latency_ns=None)]
    progress = progress_of(evidence(rows, metrics=()))
    assert progress is not None
    assert (progress.grid.width_s, progress.grid.bins, progress.failed, progress.max_in_flight) == (0.05, 9, 1, 1)
    assert progress.scheduled_per_s.tolist() == [20, 0, 20, 0, 20, 0, 20, 0, 20]
    assert progress.failed_per_s.tolist() == [0] * 8 + [20]
    assert progress.in_flight.tolist()[0] == pytest.approx(0.398)


def test_failures_are_dots_and_the_note_counts_requests_without_a_known_end(wording: Wording) -> None:
    rows = [fact(0, "a", "a"), fact(1, None, "a", stream_end_ns=None, latency_ns=None), fact(2, "a", "a")]
    figures = figures_of(performance_section(evidence(rows, metrics=())))
    assert [(series.name, series.is_joined) for series in figures["arrivals"].series] == [
        *(("scheduled", True), ("sent", True), ("failed", False)),
    ]
    wording(figures["in-flight"].note)


def test_claims_without_a_common_clock_have_no_figures_over_time(wording: Wording) -> None:
    rows = [fact(0, "a", "a"), fact(1, "a", "a", claim_id="other")]
    run = evidence(rows, claims=[claim(), claim(id="other", job_id="b", anchor_wall_ns=None)], metrics=())
    section = performance_section(run)
    assert "arrivals" not in figures_of(section)
    wording(section.lead)


@pytest.mark.parametrize(
    ("rows", "drawn"),
    [
        ([fact(0, "a", "a")], {"latency", "ttft", "tpot", "arrivals", "in-flight", "prompt-tokens", "answer-tokens"}),
        (
            [fact(i, "a", "a", ttft_user_ns=None, tpot_ns=None, completion_tokens=None) for i in range(3)],
            {"latency", "arrivals", "in-flight", "prompt-tokens"},
        ),
        ([fact(i, None, "a", latency_ns=None) for i in range(3)], set()),
        ([], set()),
    ],
    ids=["one request", "no streaming", "all failed", "nothing"],
)
def test_no_figure_has_empty_axes(rows: Sequence[dict[str, object]], drawn: set[str]) -> None:
    untimed = [row | dict.fromkeys(("ttft_user_ns", "ttft_service_ns", "tpot_ns", "queue_ns")) for row in rows]
    failed = [after if before["status"] != "ok" else before for before, after in zip(rows, untimed, strict=True)]
    figures = figures_of(performance_section(evidence(failed, metrics=())))
    assert set(figures) == drawn
    assert all(any(series.x for series in figure.series) for figure in figures.values())


def test_goodput_is_the_share_of_scheduled_requests_that_met_every_limit(wording: Wording) -> None:
    spec = scenario(slo=Slo(limits_ms={"latency_p99": 25.0, "ttft": 10.0}))
    rows = [*(fact(i, "a", "a") for i in range(8)), fact(8, None, "a"), fact(9, "a", "a", ttft_user_ns=11 * MS)]
    run = evidence(rows, spec=spec, metrics=(), claims=[claim(client=CLIENT)])
    performance = performance_of(run)
    assert performance.goodput is not None
    assert (performance.goodput.met, performance.goodput.scheduled) == (6, 10)
    assert performance.goodput.per_s == pytest.approx(6 / 0.929)
    slo = tables_of(performance_section(run))["slo"]
    assert [row[:-1] for row in cells_of(slo)] == [
        ("latency_p99 ≤ 25 ms", "–", "10", "4"),
        ("ttft ≤ 10 ms", "–", "10", "2"),
        ("goodput, requests/s", "6.46 (3.37 to 8.95)", "10", "4"),
    ]
    wording(words_of(slo))


def test_levels_of_one_target_are_a_curve_with_the_line_of_the_slo_and_the_goodput(wording: Wording) -> None:
    spec = scenario(slo=Slo(limits_ms={"latency_p99": 40.0}))
    slow, fast = (
        replace(
            timed(spec=spec),
            name=name,
            id=name,
            facts=timed(spec=spec).facts.with_columns(
                latency_ns=polars.lit(latency * MS),
                stream_end_ns=polars.col("scheduled_ns") + latency * MS,
            ),
        )
        for name, latency in (("slow", 30), ("fast", 50))
    )
    halves = fast.facts.with_columns(polars.col("scheduled_ns", "sent_ns", "stream_end_ns") // 2)
    fast = replace(fast, facts=halves)
    (figure,) = load_figures([summarise_run(run) for run in (fast, slow)])
    assert figure.name == "throughput-and-latency"
    assert [(series.labels, series.y, series.is_joined) for series in figure.series] == [
        (("slow", "fast"), (30.0, 50.0), True),
        ((), (30.0, 50.0), False),
    ]
    wording("\n".join([*(series.name for series in figure.series), figure.note]))
    assert figure.series[1].x[1] == 0.0
    assert [mark.label for mark in figure.marks] == ["SLO: latency_p99 ≤ 40 ms"]


def test_only_a_run_with_an_slo_has_figures_of_throughput() -> None:
    assert "throughput-and-latency" not in figures_of(performance_section(timed()))
    bounded = timed(spec=scenario(slo=Slo(limits_ms={"ttft_p90": 40.0, "tpot_p99": 5.0})))
    figures = figures_of(performance_section(bounded))
    assert {name for name in figures if name.startswith("throughput")} == {
        *("throughput-and-latency", "throughput-and-ttft", "throughput-and-tpot"),
    }
    assert [len(figures[f"throughput-and-{name}"].marks) for name in ("latency", "ttft", "tpot")] == [0, 0, 1]


def test_a_run_that_was_interrupted_has_no_point_on_the_curve() -> None:
    rows = [fact(0, "a", "a"), fact(1, "a", "a", claim_id="other")]
    broken = evidence(rows, claims=[claim(), claim(id="other")], metrics=())
    assert load_figures([summarise_run(broken)]) == []


def test_a_comparison_names_the_runs_whose_speeds_are_void(wording: Wording) -> None:
    good = replace(timed(), name="good", id="good")
    late = replace(
        good, name="late", id="late", facts=good.facts.with_columns(sent_ns=polars.col("scheduled_ns") + 3 * MS)
    )
    document = comparison_of("e", "two", "DONE", [good, late])
    section = section_of(document, "performance")
    tables = tables_of(section)
    assert [row[:2] + row[-1:] for row in cells_of(tables["validity"])] == [
        ("good", "valid", "0.1"),
        ("late", "INVALID", "3 INVALID"),
    ]
    wording(section.lead)
    wording(words_of(tables["validity"]))
    assert {row[1] for row in tables["times"].rows} == {"good", "late\u00a0· INVALID"}
    assert [series.name for series in figures_of(section)["latency"].series] == ["good", "late · INVALID"]
    assert [row[-2] for row in tables_of(document)["speed"].rows] == ["valid", "INVALID"]
    wording(document.verdict[1])
    assert [tile.detail.endswith("INVALID") for tile in document.tiles[:2]] == [False, True]
    assert [column.title for column in tables["harness-cost"].columns] == ["", "good", "late"]


def test_a_comparison_says_whose_cost_was_not_recorded(wording: Wording) -> None:
    runs = [replace(timed(), name="a", id="a"), replace(timed(client=None), name="b", id="b")]
    cost = tables_of(comparison_of("e", "two", "DONE", runs))["harness-cost"]
    assert values_of(cost)[0] == ("2 s", "–")
    wording(cost.note)


def test_streams_stand_side_by_side_with_the_fairness_between_them(wording: Wording) -> None:
    spec = scenario(kind="multi_stream", in_flight=2)
    rows = [
        *(fact(i, "a", "a", stream=0, scheduled_ns=50 * i * MS, stream_end_ns=50 * (i + 1) * MS) for i in range(3)),
        fact(3, "a", "a", stream=1, scheduled_ns=0, stream_end_ns=150 * MS, ttft_user_ns=30 * MS),
    ]
    run = evidence(rows, spec=spec, metrics=(), claims=[claim(client=CLIENT)])
    table = tables_of(performance_section(run))["streams"]
    assert [row[:4] for row in cells_of(table)] == [("0", "3", "3", "10.0"), ("1", "1", "1", "30.0")]
    # 20 and 6.67 answers a second: (26.67)² / (2 · (400 + 44.4)) = 0.8
    wording(table.note)


def test_a_stream_that_could_not_send_counts_in_the_fairness(wording: Wording) -> None:
    spec = scenario(kind="multi_stream", in_flight=2)
    lost = {"status": "error", "sent_ns": None, "stream_end_ns": None, "latency_ns": None, "ttft_user_ns": None}
    rows = [
        *(fact(i, "a", "a", stream=0, scheduled_ns=50 * i * MS, stream_end_ns=50 * (i + 1) * MS) for i in range(2)),
        fact(2, None, "a", stream=1, scheduled_ns=400 * MS, **lost),
    ]
    run = evidence(rows, spec=spec, metrics=(), claims=[claim(client=CLIENT)])
    table = tables_of(performance_section(run))["streams"]
    assert [row[:3] for row in cells_of(table)] == [("0", "2", "2"), ("1", "1", "0")]
    wording(table.note)
    assert performance_of(run).window_s == 0.4


def test_streams_without_answers_have_no_fairness(wording: Wording) -> None:
    spec = scenario(kind="multi_stream", in_flight=2)
    rows = [fact(i, "a", "a", stream=i, stream_end_ns=None) for i in range(2)]
    wording(tables_of(performance_section(evidence(rows, spec=spec, metrics=())))["streams"].note)


def test_turns_of_conversations_have_a_row_each_up_to_a_bound(wording: Wording) -> None:
    rows = [fact(i, "a", "a", turn=i) for i in range(18)]
    table = tables_of(performance_section(evidence(rows, metrics=(), claims=[claim(client=CLIENT)])))["turns"]
    assert len(table.rows) == 16
    wording(table.note)


def test_sizes_of_images_have_a_row_each_from_the_smallest_to_the_largest() -> None:
    small, large = 192 * 96, 2048 * 1024
    rows = [fact(i, "a", "a", pixels=large if i else small, ttft_user_ns=(30 if i else 10) * MS) for i in range(3)]
    rows += [fact(3, "a", "a", pixels=0, images=[]), fact(4, "a", "a", pixels=None, images=[])]
    table = tables_of(performance_section(evidence(rows, metrics=(), claims=[claim(client=CLIENT)])))["image_sizes"]
    assert [row[:4] for row in cells_of(table)] == [
        ("up to 0.1 MP", "1", "1", "10.0"), ("up to 4 MP", "2", "2", "30.0")
    ]  # fmt: skip


def test_a_single_stream_and_a_single_turn_have_no_table() -> None:
    spec = scenario(kind="multi_stream", in_flight=2)
    tables = tables_of(performance_section(evidence([fact(0, "a", "a")], spec=spec, metrics=())))
    assert not {"streams", "turns"} & set(tables)


def test_the_interference_between_streams_is_a_ratio_of_medians() -> None:
    spec = scenario(kind="multi_stream", in_flight=2)
    rows = [fact(i, "a", "a", stream=i % 2, latency_ns=40 * MS, tpot_ns=None) for i in range(20)]
    before = [fact(i, "a", "a", latency_ns=20 * MS, phase_kind="baseline") for i in range(20)]
    before += [fact(i, "a", "a", latency_ns=90 * MS, phase_kind="baseline", claim_id="void") for i in range(30)]
    run = evidence(rows, spec=spec, metrics=(), claims=[claim(client=CLIENT)], baseline_rows=facts_frame(before))
    assert cells_of(tables_of(performance_section(run))["interference"]) == [
        ("TTFT", "1.00 (1.00 to 1.00)"),
        ("TPOT", "–"),
        ("latency", "2.00 (2.00 to 2.00)"),
    ]
