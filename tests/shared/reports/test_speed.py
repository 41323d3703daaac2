"""The chapter on performance: what voids it, what is drawn, what measuring took, and what is left out and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars
import pytest

from tests.shared.reports.builders import (
    CLAIM,
    MS,
    claim,
    comparison_of,
    document_of,
    evidence,
    fact,
    facts_frame,
    performance_of,
)
from tests.shared.reports.timed import CLIENT, cells_of, chapter_of, figures_of, scenario, table_of, timed
from vlmhyperbench.domain.scenarios import Slo
from vlmhyperbench.reports.document import Table
from vlmhyperbench.reports.sections.progress import progress_of
from vlmhyperbench.reports.sections.speed import load_figures
from vlmhyperbench.summaries.summarising import summarise_run


def test_the_cost_of_measuring_is_stated_by_tokens_and_by_requests() -> None:
    chapter = chapter_of(document_of(timed(completion_tokens=200)))
    assert cells_of(table_of(chapter, "harness-cost")) == [
        ("processor time, all processes", "2 s"),
        ("processor time per 100 000 output tokens", "100 s"),
        ("processor time per 1 000 requests", "200 s"),
        ("share of a core, all processes", "210.5 %"),
        ("share of a core, busiest measuring process", "25.0 %"),
        ("peak memory, all processes", "3 MiB"),
        ("start-up, to the first byte that can leave", "0.5 s"),
        ("measuring processes", "2"),
    ]


def test_what_the_measuring_processes_took_stands_apart_where_it_was_recorded() -> None:
    told = CLIENT | {"measuring_cpu_s": 1.5, "measuring_peak_rss_bytes": 2**20}
    cost = table_of(chapter_of(document_of(timed(client=told))), "harness-cost")
    rows = cells_of(cost)
    assert ("of it, measuring processes", "1.5 s") in rows
    assert ("peak memory, largest measuring process", "1 MiB") in rows


def test_answers_of_unknown_length_have_no_cost_by_tokens() -> None:
    cost = performance_of(timed(completion_tokens=None)).harness
    assert cost is not None
    assert (cost.cpu_s_per_100k_tokens, cost.cpu_s_per_1k_requests) == (None, 200.0)


def test_a_percentile_has_the_interval_that_its_requests_allow() -> None:
    times = cells_of(table_of(chapter_of(document_of(timed(100))), "times"))
    assert times[0] == (
        *("latency, scheduled to last token", "50.0", "50.0 (50.0 to 50.0)", "50.0 (50.0 to 50.0)", "50.0", "50.0"),
        "100",
    )


def test_failures_are_the_slowest_in_a_table_of_their_own() -> None:
    rows = [*(fact(i, "a", "a", latency_ns=(10 + i) * MS) for i in range(9)), fact(9, None, "a")]
    chapter = chapter_of(document_of(evidence(rows, metrics=())))
    table = cells_of(table_of(chapter, "adjusted-times"))
    assert [row[:4] for row in table[:3]] == [
        ("latency, scheduled to last token", "p50", "14.0", "14.0 (11.0 to 18.0)"),
        ("latency, scheduled to last token", "p90", "18.0", "18.0"),
        ("latency, scheduled to last token", "p99", "18.0", "–"),
    ]
    assert {row[-1] for row in table} == {"1"}
    assert not [row for row in table if row[0].startswith("client queue")]


def test_the_course_over_time_counts_what_was_scheduled_sent_and_failed() -> None:
    rows = [*(fact(i, "a", "a") for i in range(4)), fact(4, None, "a", stream_end_ns=450 * MS, latency_ns=None)]
    progress = progress_of(evidence(rows, metrics=()))
    assert progress is not None
    assert (progress.grid.width_s, progress.grid.bins, progress.failed, progress.most_in_flight) == (0.05, 9, 1, 1)
    assert progress.scheduled_per_s.tolist() == [20, 0, 20, 0, 20, 0, 20, 0, 20]
    assert progress.failed_per_s.tolist() == [0] * 8 + [20]
    assert progress.in_flight.tolist()[0] == pytest.approx(0.398)


def test_failures_are_dots_and_what_never_ended_is_said() -> None:
    rows = [fact(0, "a", "a"), fact(1, None, "a", stream_end_ns=None, latency_ns=None), fact(2, "a", "a")]
    figures = figures_of(chapter_of(document_of(evidence(rows, metrics=()))))
    assert [(one.name, one.is_joined) for one in figures["arrivals"].series] == [
        *(("scheduled", True), ("sent", True), ("failed", False)),
    ]
    assert "1 request without a known end are left out." in figures["in-flight"].note


def test_claims_whose_clocks_cannot_be_tied_have_no_common_time() -> None:
    rows = [fact(0, "a", "a"), fact(1, "a", "a", claim_id="other")]
    run = evidence(rows, claims=[claim(), claim(id="other", job_id="b", anchor_wall_ns=None)], metrics=())
    chapter = chapter_of(document_of(run))
    assert "clocks cannot be tied together" in chapter.lead
    assert "arrivals" not in figures_of(chapter)


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
    figures = figures_of(chapter_of(document_of(evidence(failed, metrics=()))))
    assert set(figures) == drawn
    assert all(any(one.x for one in figure.series) for figure in figures.values())


def test_goodput_counts_the_requests_that_kept_every_limit_over_all_that_were_scheduled() -> None:
    spec = scenario(slo=Slo(limits_ms={"latency_p99": 25.0, "ttft": 10.0}))
    rows = [*(fact(i, "a", "a") for i in range(8)), fact(8, None, "a"), fact(9, "a", "a", ttft_user_ns=11 * MS)]
    run = evidence(rows, spec=spec, metrics=(), claims=[claim(client=CLIENT)])
    performance = performance_of(run)
    assert performance.goodput is not None
    assert (performance.goodput.met, performance.goodput.scheduled) == (6, 10)
    assert performance.goodput.per_s == pytest.approx(6 / 0.929)
    assert cells_of(table_of(chapter_of(document_of(run)), "slo")) == [
        ("latency_p99 ≤ 25 ms", "–", "10", "4", "exceeded"),
        ("ttft ≤ 10 ms", "–", "10", "2", "exceeded"),
        ("goodput, requests/s", "6.46 (3.37 to 8.95)", "10", "4", "60.0 % of the requests"),
    ]


def test_a_limit_on_gaps_needs_somebody_who_read_them() -> None:
    spec = scenario(slo=Slo(limits_ms={"itl_p99": 5.0}))
    run = timed(spec=spec)
    assert (performance_of(run).goodput, performance_of(run).slo) == (None, ())
    read = replace(run, facts=run.facts.with_columns(longest_gap_ns=polars.lit(4.0 * MS)))
    goodput = performance_of(read).goodput
    assert goodput is not None
    assert goodput.met == 10


def test_levels_of_one_target_are_a_curve_with_the_line_of_the_slo_and_the_goodput() -> None:
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
    assert [(one.name, one.labels, one.y, one.is_joined) for one in figure.series] == [
        ("tiny (F16) through llamacpp, closed loop", ("slow", "fast"), (30.0, 50.0), True),
        ("within the SLO (goodput)", (), (30.0, 50.0), False),
    ]
    assert figure.series[1].x[1] == 0.0
    assert [mark.label for mark in figure.marks] == ["SLO: latency_p99 ≤ 40 ms"]


def test_a_run_without_an_slo_has_no_curve_of_one_point() -> None:
    assert "throughput-and-latency" not in figures_of(chapter_of(document_of(timed())))
    bounded = timed(spec=scenario(slo=Slo(limits_ms={"ttft_p90": 40.0, "tpot_p99": 5.0})))
    figures = figures_of(chapter_of(document_of(bounded)))
    assert {name for name in figures if name.startswith("throughput")} == {
        *("throughput-and-latency", "throughput-and-ttft", "throughput-and-tpot"),
    }
    assert [len(figures[f"throughput-and-{name}"].marks) for name in ("latency", "ttft", "tpot")] == [0, 0, 1]


def test_a_run_that_was_interrupted_has_no_point_on_the_curve() -> None:
    rows = [fact(0, "a", "a"), fact(1, "a", "a", claim_id="other")]
    broken = evidence(rows, claims=[claim(), claim(id="other")], metrics=())
    assert load_figures([summarise_run(broken)]) == []


def test_a_comparison_names_the_runs_whose_speeds_are_void() -> None:
    good = replace(timed(), name="good", id="good")
    late = replace(
        good, name="late", id="late", facts=good.facts.with_columns(sent_ns=polars.col("scheduled_ns") + 3 * MS)
    )
    document = comparison_of("e", "two", "DONE", [good, late])
    chapter = chapter_of(document)
    assert chapter.lead.startswith("INVALID as measurements of speed are those of late. Timed at the client only")
    assert [row[:2] + row[-1:] for row in cells_of(table_of(chapter, "validity"))] == [
        ("good", "valid", "0.1"),
        ("late", "INVALID", "3 INVALID"),
    ]
    assert [column.title.replace("\u00a0", " ") for column in table_of(chapter, "validity").columns[2:]] == [
        *("no row, ≤ 0", "failed, ≤ 0.1 %", "retried, ≤ 0.1 %", "client busy, ≤ 70 %", "disturbed by, ≤ 0"),
        "sent late, mean, ms, ≤ 0.5",
        "of it in TTFT p99, ms, ≤ 1",
    ]
    assert {row[1] for row in table_of(chapter, "times").rows} == {"good", "late\u00a0· INVALID"}
    assert [one.name for one in figures_of(chapter)["latency"].series] == ["good", "late · INVALID"]
    speed = table_of(next(section for section in document.sections if section.name == "results"), "speed")
    assert [row[-2] for row in speed.rows] == ["valid", "INVALID"]
    assert document.verdict[1].startswith("INVALID as measurements of speed are those of late: late is about as fast")
    assert [tile.detail.endswith("INVALID") for tile in document.tiles[:2]] == [False, True]
    cost = table_of(chapter, "harness-cost")
    assert [column.title for column in cost.columns] == ["", "good", "late"]


def test_a_comparison_says_whose_cost_was_not_recorded() -> None:
    runs = [replace(timed(), name="a", id="a"), replace(timed(client=None), name="b", id="b")]
    cost = table_of(chapter_of(comparison_of("e", "two", "DONE", runs)), "harness-cost")
    assert cells_of(cost)[0] == ("processor time, all processes", "2 s", "–")
    assert cost.note.endswith("Not every claim recorded it: b.")


def test_the_claim_that_measured_is_the_one_whose_cost_counts() -> None:
    others = [claim(client=CLIENT), claim(id="scored", job="SCORE", client=CLIENT | {"cpu_s": 100.0})]
    cost = performance_of(replace(timed(), claims=others)).harness
    assert cost is not None
    assert (cost.cpu_s, cost.claims) == (2.0, 1)
    assert others[0].id == CLAIM


def test_streams_stand_side_by_side_with_how_evenly_they_were_served() -> None:
    spec = scenario(kind="multi_stream", in_flight=2)
    rows = [
        *(fact(i, "a", "a", stream=0, scheduled_ns=50 * i * MS, stream_end_ns=50 * (i + 1) * MS) for i in range(3)),
        fact(3, "a", "a", stream=1, scheduled_ns=0, stream_end_ns=150 * MS, ttft_user_ns=30 * MS),
    ]
    run = evidence(rows, spec=spec, metrics=(), claims=[claim(client=CLIENT)])
    table = table_of(chapter_of(document_of(run)), "streams")
    assert [row[:4] for row in cells_of(table)] == [("0", "3", "3", "10.0"), ("1", "1", "1", "30.0")]
    # 20 and 6.67 answers a second: (26.67)² / (2 · (400 + 44.4)) = 0.8
    assert table.note.startswith("Fairness (Jain): 0.800 by answers a second and 0.800 by output tokens; 1 is evenly")


def test_a_stream_that_could_not_send_counts_as_one_and_takes_its_time() -> None:
    spec = scenario(kind="multi_stream", in_flight=2)
    lost = {"status": "error", "sent_ns": None, "stream_end_ns": None, "latency_ns": None, "ttft_user_ns": None}
    rows = [
        *(fact(i, "a", "a", stream=0, scheduled_ns=50 * i * MS, stream_end_ns=50 * (i + 1) * MS) for i in range(2)),
        fact(2, None, "a", stream=1, scheduled_ns=400 * MS, **lost),
    ]
    run = evidence(rows, spec=spec, metrics=(), claims=[claim(client=CLIENT)])
    table = table_of(chapter_of(document_of(run)), "streams")
    assert [row[:3] for row in cells_of(table)] == [("0", "2", "2"), ("1", "1", "0")]
    assert table.note.startswith("Fairness (Jain): 0.500 by answers a second")
    assert performance_of(run).window_s == 0.4


def test_streams_that_got_nothing_have_no_fairness() -> None:
    spec = scenario(kind="multi_stream", in_flight=2)
    rows = [fact(i, "a", "a", stream=i, stream_end_ns=None) for i in range(2)]
    chapter = chapter_of(document_of(evidence(rows, spec=spec, metrics=())))
    assert table_of(chapter, "streams").note.startswith("How evenly the streams were served cannot be said")


def test_turns_of_conversations_stand_apart_and_many_are_cut() -> None:
    rows = [fact(i, "a", "a", turn=i) for i in range(18)]
    table = table_of(chapter_of(document_of(evidence(rows, metrics=(), claims=[claim(client=CLIENT)]))), "turns")
    assert len(table.rows) == 16
    assert table.note.endswith("2 further ones are left out.")


def test_sizes_of_images_stand_apart_from_the_smallest_to_the_largest() -> None:
    small, large = 192 * 96, 2048 * 1024
    rows = [fact(i, "a", "a", pixels=large if i else small, ttft_user_ns=(30 if i else 10) * MS) for i in range(3)]
    rows += [fact(3, "a", "a", pixels=0, images=[]), fact(4, "a", "a", pixels=None, images=[])]
    table = table_of(chapter_of(document_of(evidence(rows, metrics=(), claims=[claim(client=CLIENT)]))), "image_sizes")
    assert [row[:4] for row in cells_of(table)] == [
        ("up to 0.1 MP", "1", "1", "10.0"), ("up to 4 MP", "2", "2", "30.0")
    ]  # fmt: skip


def test_one_stream_and_one_turn_are_no_groups() -> None:
    spec = scenario(kind="multi_stream", in_flight=2)
    chapter = chapter_of(document_of(evidence([fact(0, "a", "a")], spec=spec, metrics=())))
    assert not [block for block in chapter.blocks if isinstance(block, Table) and block.name in {"streams", "turns"}]


def test_what_streams_cost_each_other_is_a_ratio_of_medians() -> None:
    spec = scenario(kind="multi_stream", in_flight=2)
    rows = [fact(i, "a", "a", stream=i % 2, latency_ns=40 * MS, tpot_ns=None) for i in range(20)]
    before = [fact(i, "a", "a", latency_ns=20 * MS, phase_kind="baseline") for i in range(20)]
    before += [fact(i, "a", "a", latency_ns=90 * MS, phase_kind="baseline", claim_id="void") for i in range(30)]
    run = evidence(rows, spec=spec, metrics=(), claims=[claim(client=CLIENT)], alone=facts_frame(before))
    assert cells_of(table_of(chapter_of(document_of(run)), "interference")) == [
        ("TTFT", "1.00 (1.00 to 1.00)"),
        ("TPOT", "–"),
        ("latency", "2.00 (2.00 to 2.00)"),
    ]
