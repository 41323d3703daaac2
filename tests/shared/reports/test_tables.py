"""The CSV files: their columns, their numbers, and cells that a spreadsheet must not run."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import polars
import pytest

from tests.shared.reports.builders import claim, evidence, fact, reported
from vlmhyperbench.reports.writers.tables import answers_csv, metrics_detailed_csv, metrics_summary_csv
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench_text_metrics.exact_match import ExactMatch


def _read(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode(), newline=""), delimiter=";"))


def test_answers_have_the_documented_columns_and_one_row_per_request() -> None:
    content = answers_csv(evidence())
    assert content.decode().splitlines()[0] == (
        "id;model_answer;status;finish_reason;error;attempts;prompt_tokens;completion_tokens;latency_ms;ttft_ms;tpot_ms;"
        "vram_peak_mb;vram_delta_mb;prompt_sha256;started_at;repeat"
    )
    rows = _read(content)
    assert [row["id"] for row in rows] == ["s0", "s1", "s2", "s3", "s4", "s5"]
    assert (rows[1]["latency_ms"], rows[1]["ttft_ms"], rows[1]["tpot_ms"]) == ("21.0", "10.0", "1.0")
    assert rows[0]["started_at"] == "2001-09-09T01:46:40.000+00:00"
    assert len(rows[0]["prompt_sha256"]) == 64
    assert (rows[5]["status"], rows[5]["error"], rows[5]["model_answer"]) == ("error", "connection_lost", "")


def test_memory_of_an_accelerator_is_stated_for_each_request_that_it_is_known_for() -> None:
    known = fact(0, "yes", "yes", vram_before_bytes=3 * 2**20, vram_peak_bytes=5 * 2**20)
    rows = _read(answers_csv(evidence([known, fact(1, "yes", "yes")])))
    assert [(row["vram_peak_mb"], row["vram_delta_mb"]) for row in rows] == [("5.0", "2.0"), ("", "")]


def test_text_that_a_spreadsheet_would_run_gets_an_apostrophe() -> None:
    texts = ["=1+1", "+1", "-1", "@x", "\tx", "＝1", "\u200b=1", "a;b\n'c", ""]
    rows = _read(answers_csv(evidence([fact(i, text, "yes") for i, text in enumerate(texts)])))
    assert [row["model_answer"] for row in rows] == [
        *("'=1+1", "'+1", "'-1", "'@x", "'\tx", "'＝1", "'\u200b=1"),
        *("a;b\n'c", ""),
    ]


def test_an_answer_with_any_text_stays_a_single_cell() -> None:
    texts = ["a\rb", "a\r\nb", 'say "a"', "a;b", " a ", "договор 合同 🧾", "a\u2028b"]
    rows = _read(answers_csv(evidence([fact(i, text, "yes") for i, text in enumerate(texts)])))
    assert [row["model_answer"] for row in rows] == texts


def test_an_empty_answer_is_distinct_from_a_missing_one() -> None:
    content = answers_csv(evidence([fact(0, "", "yes"), fact(1, None, "yes")])).decode()
    assert [line.split(";")[:3] for line in content.splitlines()[1:]] == [["s0", '""', "ok"], ["s1", "", "error"]]


def test_negative_numbers_get_no_apostrophe() -> None:
    (row,) = _read(answers_csv(evidence([fact(0, "yes", "yes", latency_ns=-1_500_000)])))
    assert row["latency_ms"] == "-1.5"


def test_without_an_anchor_or_a_prompt_cells_are_empty() -> None:
    run = evidence([fact(0, "yes", "yes", user_prompt=None)], claims=[claim(anchor_wall_ns=None)])
    (row,) = _read(answers_csv(run))
    assert (row["started_at"], row["prompt_sha256"]) == ("", "")
    (unsent,) = _read(answers_csv(evidence([fact(0, None, "yes", sent_ns=None, latency_ns=None)])))
    assert (unsent["started_at"], unsent["latency_ms"]) == ("", "")


def test_measures_in_detail_have_a_column_per_metric_and_say_why_a_value_is_missing() -> None:
    rows = _read(metrics_detailed_csv(evidence()))
    assert list(rows[0]) == [
        *("id", "doc_class", "question_type", "field_name"),
        *("exact_match", "anls", "cer", "structural_valid", "metric_errors"),
    ]
    assert (rows[0]["id"], rows[0]["doc_class"], rows[0]["exact_match"]) == ("s0", "receipt", "1.0")
    assert rows[5]["exact_match"] == ""
    assert rows[5]["metric_errors"].startswith("exact_match: ")


def test_a_score_that_a_file_reports_under_an_odd_name_breaks_no_header() -> None:
    run = evidence(metrics=(ExactMatch(),))
    odd = 'reported a;b\n"c"'
    spec = run.scored[0].spec.model_copy(update={"name": odd})
    (header, *_) = csv.reader(
        io.StringIO(metrics_detailed_csv(replace(run, scored=[replace(run.scored[0], spec=spec, key=odd)])).decode()),
        delimiter=";",
    )
    assert odd in header


def _with_fields(run: RunEvidence) -> RunEvidence:
    scored = run.scored[0]
    first = scored.measures.head(1)
    extra = first.with_columns(polars.lit("total").alias("field"))
    stray = first.with_columns(polars.lit(99, dtype=scored.measures.schema["ordinal"]).alias("ordinal"))
    measures = polars.concat([scored.measures, extra, stray])
    return evidence(metrics=(ExactMatch(),), scored=[replace(scored, measures=measures)])


def test_a_measure_of_a_field_has_a_row_of_its_own_and_a_stray_one_has_none() -> None:
    run = _with_fields(evidence(metrics=(ExactMatch(),)))
    rows = _read(metrics_detailed_csv(run))
    assert [(row["id"], row["field_name"]) for row in rows[:2]] == [("s0", ""), ("s0", "total")]
    assert len(rows) == 7
    fields = [row for row in _read(metrics_summary_csv([reported(run)])) if row["aggregator"] == "by_field"]
    assert [(row["group_value"], row["n"], row["value"]) for row in fields] == [("total", "1", "1.0")]


def test_summaries_hold_every_aggregator_with_intervals_where_there_is_a_group() -> None:
    content = metrics_summary_csv([reported(evidence(metrics=(ExactMatch(),)))])
    assert content.decode().splitlines()[0] == (
        "aggregator;group_key;group_value;metric;profile;version;n;n_invalid;value;mean;median;p95;p99;min;max;"
        "ci_low;ci_high"
    )
    rows = _read(content)
    assert list(dict.fromkeys(row["aggregator"] for row in rows)) == [
        *("general", "by_doc_type", "by_doc_question", "by_id"),
    ]
    general = rows[0]
    assert (general["n"], general["n_invalid"], general["value"], general["median"]) == ("5", "0", "0.8", "1.0")
    assert [row["group_value"] for row in rows if row["aggregator"] == "by_doc_type"] == ["receipt", "ticket"]
    assert next(row for row in rows if row["group_value"] == "receipt field")["group_key"] == "doc_class question_type"
    by_id = [row for row in rows if row["aggregator"] == "by_id"]
    assert [(by_id[no]["value"], by_id[no]["n"], by_id[no]["n_invalid"]) for no in (0, 5)] == [
        ("1.0", "1", "0"),
        ("", "0", "0"),
    ]


def test_answers_that_could_not_be_read_are_counted_as_invalid() -> None:
    run = evidence(metrics=(ExactMatch(),))
    (scored,) = run.scored
    unread = scored.measures.with_columns(is_invalid=polars.col("ordinal") == 4)
    run = evidence(metrics=(ExactMatch(),), scored=[replace(scored, measures=unread)])
    rows = _read(metrics_summary_csv([reported(run)]))
    assert (rows[0]["n"], rows[0]["n_invalid"]) == ("5", "1")


def test_summaries_of_several_runs_begin_with_the_runs_name() -> None:
    rows = _read(metrics_summary_csv([reported(evidence()), reported(evidence(name="other"))], is_named=True))
    assert {row["run"] for row in rows} == {"tiny", "other"}


def test_a_run_without_group_columns_has_no_summaries_by_document() -> None:
    run = evidence(metrics=(ExactMatch(),))
    ungrouped = evidence(metrics=(ExactMatch(),), facts=run.facts.drop("group.doc_class", "group.question_type"))
    assert {row["aggregator"] for row in _read(metrics_summary_csv([reported(ungrouped)]))} == {"general", "by_id"}


def test_fields_of_one_document_are_one_unit_of_their_interval() -> None:
    run = evidence(metrics=(ExactMatch(),))
    (scored,) = run.scored
    fields = scored.measures.filter(polars.col("value").is_not_null()).with_columns(polars.lit("total").alias("field"))
    run = evidence(metrics=(ExactMatch(),), scored=[replace(scored, measures=fields)])
    (row,) = [row for row in _read(metrics_summary_csv([reported(run)])) if row["aggregator"] == "by_field"]
    # Samples 0, 1 and 4 lie on one page and 2 and 3 on another: two units, not five.
    assert (row["n"], row["value"], row["ci_low"] != "") == ("5", "0.8", True)
    assert [float(row["ci_low"]), float(row["ci_high"])] == pytest.approx([2 / 3, 1.0], abs=1e-6)


def test_repeats_of_a_sample_are_one_row_by_id() -> None:
    texts = ["yes", "no", "yes"]
    run = evidence([fact(i, text, "yes", key="s0", repeat=i) for i, text in enumerate(texts)], metrics=(ExactMatch(),))
    (row,) = [row for row in _read(metrics_summary_csv([reported(run)])) if row["aggregator"] == "by_id"]
    assert (row["group_key"], row["group_value"], row["n"], row["n_invalid"]) == ("id", "s0", "3", "0")
    assert float(row["value"]) == pytest.approx(2 / 3)
    assert (row["median"], row["min"], row["max"], row["ci_low"]) == ("1.0", "0.0", "1.0", "")


def test_a_run_without_metrics_has_files_of_headers() -> None:
    run = evidence(metrics=())
    assert metrics_detailed_csv(run).decode() == (
        "id;doc_class;question_type;field_name;structural_valid;metric_errors\n"
    )
    assert metrics_summary_csv([reported(run)]).decode().count("\n") == 1


def test_a_run_without_answers_has_a_single_row_for_all_answers() -> None:
    run = evidence([], metrics=(ExactMatch(),))
    assert _read(answers_csv(run)) == _read(metrics_detailed_csv(run)) == []
    (row,) = _read(metrics_summary_csv([reported(run)]))
    assert (row["aggregator"], row["n"], row["value"], row["mean"]) == ("general", "0", "", "")
