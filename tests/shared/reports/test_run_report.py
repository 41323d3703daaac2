"""The report of a run: verdict, numbers, denominators, mistakes, provenance, and what is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.shared.reports.builders import CLAIM, claim, document_of, evidence, fact, performance_of, run_spec
from tests.shared.reports.timed import limits_of
from vlmhyperbench.analysis.figures import FigureSpec
from vlmhyperbench.domain.scenarios import ScenarioSpec, Slo
from vlmhyperbench.domain.specs import EndpointTarget, PromptSpec
from vlmhyperbench.reports.document import Block, Cases, Document, Facts, Listing, Table, write_cell
from vlmhyperbench.reports.sections.times import adjusted_table
from vlmhyperbench.reports.sections.wording import plain, size
from vlmhyperbench_text_metrics import Anls, Bleu, Cer, ExactMatch


def _blocks(document: Document, section: str) -> list[Block]:
    return [block for one in document.sections if one.name == section for block in one.blocks]


def _table(document: Document, name: str) -> Table:
    found = [b for s in document.sections for b in s.blocks if isinstance(b, Table) and b.name == name]
    assert len(found) == 1
    return found[0]


def _rows(table: Table) -> list[tuple[str, ...]]:
    return [tuple(write_cell(cell) for cell in row) for row in table.rows]


def test_a_run_of_which_everything_has_a_score_says_nothing_of_gaps() -> None:
    whole = evidence([fact(i, "yes", "yes") for i in range(4)])
    assert document_of(whole).verdict[0].startswith("tiny (F16) gives the right answer")


def test_requests_that_were_never_made_have_no_bounds() -> None:
    early = evidence([fact(i, "yes", "yes") for i in range(4)], total=9)
    assert document_of(early).verdict[0].startswith("Incomplete: 4 answers of 9 requested have a score. tiny")


def test_the_verdict_is_three_sentences_of_numbers() -> None:
    good, fast, weak = document_of(evidence()).verdict
    assert good.startswith(
        "Incomplete: 5 answers of 6 requested have a score; with the others wrong or right, exact match would lie "
        "between 0.667 and 0.833. tiny (F16) gives the right answer to 80.0\u00a0% of 5 questions by exact match "
        "(95 % interval"
    )
    assert "ANLS is 0.933 and character error rate is 0.067" in good
    assert fast.startswith(
        "INVALID as a measurement of speed, since 16.7\u00a0% of the requests failed (0.1\u00a0% may): half of its "
        "answers took at most 22\u00a0ms, 99 % at most 24\u00a0ms"
    )
    assert "first token came within 10\u00a0ms" in fast
    assert weak == (
        "The one wrong answer is of the kind ‘near miss’; 1 was lost to the infrastructure; the most frequent error: "
        "1 x connection_lost (infrastructure, does not count against the model): no word."
    )


def test_the_denominators_stand_in_every_report() -> None:
    rows = [
        *(fact(i, "yes", "yes") for i in range(4)),
        fact(4, "y", "yes", finish_reason="length"),
        fact(5, None, "yes", failure="model", error_code="refused"),
        fact(6, None, "yes"),
        fact(7, None, "yes", status="quarantined"),
    ]
    document = document_of(evidence(rows, total=10))
    assert _rows(_table(document, "denominators")) == [("10", "5", "6", "1", "2", "0", "2", "20.0 %")]
    assert "2 requests have no row" in limits_of(document)
    assert "20.0\u00a0% of the answers ended at the limit of 256 tokens" in limits_of(document)
    assert "were never made" in document.verdict[2]
    assert "1 answer ended at the token limit" in document.verdict[2]
    headline = _rows(_table(document, "headline"))[0]
    assert headline[3:] == ("6", "2", "0", "0.500", "0.750", "–")
    assert document.headline[0]["infrastructure_failures"] == 2


def test_a_whole_run_without_mistakes_says_so() -> None:
    document = document_of(evidence([fact(i, "yes", "yes") for i in range(3)]))
    assert document.verdict[2] == "No answer was wrong; no request failed."
    assert document.state == "succeeded"
    assert document.tone == "good"
    (mistakes,) = [section for section in document.sections if section.name == "mistakes-section"]
    assert mistakes.lead == "No answer was wrong."


def test_a_state_that_is_final_is_not_recomputed() -> None:
    document = document_of(evidence(state="CANCELLED", finished_at="2026-01-01T00:02:00Z"))
    assert (document.state, document.tone) == ("cancelled", "bad")
    assert document.finished_at == "2026-01-01T00:02:00Z"


def test_the_weakest_groups_are_named_where_groups_are_large_enough() -> None:
    rows = [fact(i, "yes" if i % 2 == 0 else "no", "yes") for i in range(12)]
    weak = document_of(evidence(rows)).verdict[2]
    assert "It is weakest on the document class ‘ticket’ (0.0\u00a0%, n\u00a0=\u00a06)" in weak


def test_an_error_rate_is_weakest_where_it_is_highest() -> None:
    rows = [fact(i, "yes" if i % 2 == 0 else "no", "yes") for i in range(12)]
    document = document_of(evidence(rows, metrics=(Cer(),)))
    assert document.verdict[0].startswith("tiny (F16) reaches character error rate")
    assert "‘ticket’" in document.verdict[2]
    figure = next(f for f in document.figures if f.name == "quality-by-doc-class")
    assert figure.categories == ("ticket", "receipt")


def test_mistakes_are_chosen_from_every_kind_and_compared_with_what_was_expected() -> None:
    rows = [
        fact(0, "receipt", "Riga", references=["Riga"]),
        fact(1, "Riga", "receipt", references=["receipt"]),
        fact(2, "Oslo", "Rome"),
        fact(3, None, "Rome", failure="model", error_code=None),
        fact(4, "Rom", "Rome", finish_reason="length", images=[]),
    ]
    document = document_of(evidence(rows))
    (cases,) = [block for block in _blocks(document, "mistakes-section") if isinstance(block, Cases)]
    by_key = {case.key: case for case in cases.items}
    assert {case.kind for case in cases.items} == {
        *("another answer of the same page", "something else", "failed: unknown", "cut off at the token limit"),
    }
    assert by_key["s0"].references == ("Riga",)
    assert by_key["s3"].answers[0].note == "failed: unknown"
    assert by_key["s4"].answers[0].note == "cut off at the token limit"
    assert by_key["s4"].answers[0].score == "ANLS 0.75"
    assert by_key["s4"].images == ()
    assert document.images == ("a" * 64, "b" * 64)


def test_quality_is_shown_by_each_group_column_with_metrics_of_one_scale_together() -> None:
    document = document_of(evidence(metrics=(ExactMatch(), Anls(), Cer(), Bleu())))
    figures = {figure.name: figure for figure in document.figures}
    by_class = figures["quality-by-doc-class"]
    assert [series.name for series in by_class.series] == ["Exact match", "ANLS"]
    assert set(by_class.categories) == {"receipt", "ticket"}
    assert "quality-by-question-type-and-doc-class" in figures
    assert _table(document, "by-doc-class").is_collapsed
    assert write_cell(_table(document, "headline").rows[3][2]) == "–"  # corpus BLEU of one-word answers


def test_a_matrix_of_a_pooled_metric_pools_each_cell() -> None:
    document = document_of(evidence(metrics=(Cer(),)))
    matrix = next(figure for figure in document.figures if figure.kind == "matrix")
    assert matrix.cell_labels[1][0] == "0.33 · 1"
    assert matrix.cells[1][0] == 1.0


def test_answers_without_a_group_are_a_group_of_their_own() -> None:
    rows = [fact(i, "yes", "yes", **{"group.doc_class": None if i else "receipt"}) for i in range(3)]
    figure = next(f for f in document_of(evidence(rows)).figures if f.name == "quality-by-doc-class")
    assert "(none)" in figure.categories


def test_the_run_decides_by_which_columns_it_is_grouped() -> None:
    metrics = (ExactMatch(),)
    run = evidence(metrics=metrics, spec=run_spec(metrics=metrics, group_by=("question_type", "absent")))
    assert run.groups == ("question_type",)
    assert not [figure for figure in document_of(run).figures if figure.kind == "matrix"]


def test_other_columns_of_few_values_are_groups_too() -> None:
    run = evidence()
    facts = run.facts.with_columns(
        run.facts["key"].alias("group.key"),
        run.facts["status"].replace("ok", "fine").replace("error", "fine").alias("group.same"),
    )
    assert evidence(facts=facts).groups == ("doc_class", "question_type", "key")


def test_a_group_in_which_nothing_is_scored_gives_no_figure() -> None:
    document = document_of(evidence([fact(0, None, "yes")]))
    (quality,) = [section for section in document.sections if section.name == "quality"]
    assert quality.blocks == ()
    assert document.verdict[0] == "tiny (F16) has no score: nothing that it answered could be scored."
    assert "were of the kind" not in document.verdict[2]


def test_a_run_without_metrics_still_says_how_fast_it_was() -> None:
    document = document_of(evidence([fact(i, "yes", "yes") for i in range(4)], metrics=()))
    assert "has no score" in document.verdict[0]
    assert document.verdict[1].startswith("Half of its answers")
    (mistakes,) = [section for section in document.sections if section.name == "mistakes-section"]
    assert mistakes.lead == "Nothing was scored."


def test_rates_count_from_the_first_request_to_the_last_stream_end() -> None:
    performance = performance_of(evidence())
    assert performance.window_s == pytest.approx(0.525)
    assert performance.samples_per_s == pytest.approx(5 / 0.525)
    assert performance.output_tokens_per_s == pytest.approx(55 / 0.525)
    assert performance.peak_memory_bytes == 1024


def test_where_one_answer_is_not_counted_nobody_knows_how_many_tokens_came() -> None:
    rows = [fact(0, "a", "a"), fact(1, "a", "a", completion_tokens=None)]
    performance = performance_of(evidence(rows))
    assert (performance.output_tokens, performance.output_tokens_per_s) == (None, None)


def test_an_answer_without_a_token_is_slower_than_any() -> None:
    rows = [fact(i, "a", "a") for i in range(4)]
    rows += [fact(i, "", "a", latency_ns=None, ttft_user_ns=None, tpot_ns=None) for i in range(4, 8)]
    slo = run_spec(scenario=ScenarioSpec(slo=Slo(limits_ms={"latency_p90": 1000})))
    performance = performance_of(evidence(rows, spec=slo))
    assert performance.percentiles["latency_ms"][1].adjusted is None
    assert [(limit.n, limit.over) for limit in performance.slo] == [(8, 4)]
    table = adjusted_table([("a", performance)])
    assert table is not None
    assert {row[-1] for row in table.rows} == {4}


def test_a_run_whose_requests_were_not_timed_says_nothing_of_speed() -> None:
    untimed = dict.fromkeys(
        (
            "scheduled_ns",
            "sent_ns",
            "queue_ns",
            "ttft_user_ns",
            "ttft_service_ns",
            "tpot_ns",
            "latency_ns",
            "stream_end_ns",
        )
    )
    untimed |= {"completion_tokens": None}
    document = document_of(evidence([fact(0, "a", "b", **untimed)], claims=[claim(resources=None)]))
    assert document.verdict[1] == "No request of this run was timed, so nothing can be said of its speed."
    assert _blocks(document, "performance") == []
    assert document.headline[0]["latency_p50_ms"] is None
    assert document.headline[0]["peak_memory_bytes"] is None


def test_answers_without_tokens_have_a_latency_and_no_rate_of_tokens() -> None:
    rows = [fact(0, "a", "a", completion_tokens=None, ttft_user_ns=None, tpot_ns=None, token_source=None)]
    document = document_of(evidence(rows))
    assert "output tokens" not in document.verdict[1]
    assert "first token" not in document.verdict[1]
    assert any(tile.detail == "tokens unknown" for tile in document.tiles)


def test_provenance_names_weights_engine_machine_and_metric_versions() -> None:
    document = document_of(evidence())
    assert _rows(_table(document, "provenance-weights")) == [("weights", "d" * 64, "package:tiny/tiny.gguf")]
    (claimed,) = _rows(_table(document, "provenance-claims"))
    assert claimed[:5] == (CLAIM, "bench", "CPU, 2 threads, 2\u00a0GiB", "llama.cpp b1", "engine")
    assert [row[0] for row in _rows(_table(document, "provenance-metrics"))] == [
        *("exact_match@v1:1.0.0", "anls@paper:1.0.0", "cer@jiwer:1.0.0"),
    ]
    assert ("xllamacpp", "0.2", "engine") in _rows(_table(document, "provenance-packages"))
    command = [block for block in _blocks(document, "provenance") if isinstance(block, Listing)]
    assert command[0].text == "llama-server --model 'my model.gguf'"
    (facts,) = [block for block in _blocks(document, "provenance") if isinstance(block, Facts)]
    assert ("phases", "1 accuracy complete") in facts.items


def test_accelerators_are_named_and_their_memory_counts() -> None:
    machine = {"cpu_model": "CPU", "devices": [{"kind": "gpu", "name": "H100"}, {"kind": "cpu", "name": "CPU"}]}
    resources = {"accelerator_memory_used_bytes_peak": 2048, "engine_rss_bytes_peak": 1}
    run = evidence(claims=[claim(machine=machine, resources=resources)])
    (claimed,) = _rows(_table(document_of(run), "provenance-claims"))
    assert claimed[2] == "CPU, – threads, –, H100"
    assert performance_of(run).peak_memory_bytes == 2048


def test_an_endpoint_has_the_hashes_that_its_engine_told_and_shows_no_user_of_its_address() -> None:
    target = EndpointTarget(endpoint="http://user:secret@host/v1?key=x", model_name="remote")
    metrics = (ExactMatch(),)
    run = evidence(
        metrics=metrics,
        spec=run_spec(metrics=metrics, target=target),
        claims=[claim(engine={"name": "remote", "weights_sha256": {"weights": "7" * 64}})],
    )
    document = document_of(run)
    assert "user:secret" not in str(document)
    assert "key=x" not in str(document)
    assert document.subtitle.startswith("remote through host/v1, on document-qa")
    assert _rows(_table(document, "provenance-weights")) == [("weights", "7" * 64, "as the engine says")]


def test_a_run_that_nobody_measured_has_no_claims_to_show() -> None:
    document = document_of(evidence([], claims=[], phases=[], manifest_id=None, samples=None, total=None))
    assert not [b for b in _blocks(document, "provenance") if isinstance(b, Table) and b.name.endswith("claims")]
    assert document.headline[0]["requested"] == 0
    assert [tile.value for tile in document.tiles if tile.label == "answered"] == ["–"]
    assert document.finished_at == ""


def test_configuration_shows_the_prompts_and_one_as_it_was_sent() -> None:
    metrics = (ExactMatch(),)
    prompt = PromptSpec(name="p", version="1.0.0", fixed_system_prompt="Be brief.", user_prompt="{{ question }}!")
    document = document_of(evidence(metrics=metrics, spec=run_spec(metrics=metrics, prompt=prompt)))
    listings = {block.title: block.text for block in _blocks(document, "configuration") if isinstance(block, Listing)}
    assert listings == {
        "System prompt": "Be brief.",
        "Prompt": "{{ question }}!",
        "As sent for s0": "Question 0?",
    }


def test_a_metric_that_a_run_has_twice_is_named_with_its_profile() -> None:
    run = evidence(metrics=(Anls(), Anls(profile="inclusive")))
    assert [one.label for one in run.scored] == ["ANLS (paper)", "ANLS (inclusive)"]
    assert list(document_of(run).headline[0]["metrics"]) == ["anls@paper", "anls@inclusive"]  # type: ignore[arg-type]


def test_every_figure_of_a_report_has_its_own_name_and_words() -> None:
    figures: tuple[FigureSpec, ...] = document_of(evidence()).figures
    assert len({figure.name for figure in figures}) == len(figures)
    assert all(figure.alt and figure.table.rows for figure in figures)


def test_an_answer_without_time_still_leaves_a_rate_unknown() -> None:
    """A run whose only window is empty: every request ended when it was scheduled."""
    rows = [fact(0, "a", "a", latency_ns=0, stream_end_ns=0, ttft_user_ns=0)]
    assert "in flight gave" not in document_of(evidence(rows)).verdict[1]


def test_a_pooled_value_that_nobody_can_define_leaves_its_cell_empty() -> None:
    run = evidence(metrics=(Cer(),))
    scored = run.scored[0]
    uncounted = scored.measures.with_columns(stat_count=0.0).drop("stat.count").rename({"stat_count": "stat.count"})
    emptied = replace(scored, measures=uncounted)
    run = evidence(metrics=(Cer(),), scored=[emptied])
    document = document_of(run)
    assert not any(figure.name.startswith("quality-by-doc-class-and") for figure in document.figures)


def test_settings_are_written_for_people() -> None:
    assert plain({"b": True, "a": [1, None], "c": False, "d": {}, "e": []}) == "a=1, –, b=yes, c=no, d=–, e=–"


def test_sizes_have_binary_units() -> None:
    assert (size(512), size(1536), size(2.0**60)) == ("512\u00a0B", "1.5\u00a0KiB", "1 048 576\u00a0TiB")


def test_licence_and_category_stand_where_the_run_is_traced() -> None:
    plain = evidence([fact(0, "a", "a")])
    target = plain.spec.target.model_copy(update={"license": "Apache-2.0"})
    spec = plain.spec.model_copy(update={"category": "document_question_answering", "target": target})
    shown = {
        label: text
        for section in document_of(replace(plain, spec=spec)).sections
        for block in section.blocks
        if isinstance(block, Facts)
        for label, text in block.items
    }
    assert shown["licence of the weights"] == "Apache-2.0"
    assert shown["task"].endswith("(document_question_answering)")
