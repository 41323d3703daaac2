"""The report of a run: verdict, numbers, denominators, mistakes, provenance, limitations."""

from __future__ import annotations

from dataclasses import replace

from tests.shared.reports.builders import CLAIM, claim, document_of, evidence, fact, performance_of, run_spec
from tests.shared.reports.reading import (
    blocks_of,
    cells_of,
    figures_of,
    limits_of,
    section_of,
    tables_of,
    verdict_of,
)
from tests.support.wording import Wording
from vlmhyperbench.analysis.figures import FigureSpec
from vlmhyperbench.analysis.mistakes import Mistake
from vlmhyperbench.domain.recipes import QUANTIZER, ModelFile, RecipeSpec
from vlmhyperbench.domain.scenarios import ScenarioSpec, Slo
from vlmhyperbench.domain.specs import EndpointTarget, PromptSpec
from vlmhyperbench.reports.document import Cases, Facts, Listing, write_cell
from vlmhyperbench.reports.sections.times import adjusted_table
from vlmhyperbench.reports.sections.wording import plain, size
from vlmhyperbench_text_metrics.anls import Anls
from vlmhyperbench_text_metrics.bleu import Bleu
from vlmhyperbench_text_metrics.cer import Cer
from vlmhyperbench_text_metrics.exact_match import ExactMatch


def test_the_verdict_of_a_complete_run_has_no_gap(wording: Wording) -> None:
    whole = evidence([fact(i, "yes", "yes") for i in range(4)])
    wording(verdict_of(document_of(whole)))


def test_requests_that_were_never_made_have_no_bounds(wording: Wording) -> None:
    early = evidence([fact(i, "yes", "yes") for i in range(4)], total=9)
    wording(document_of(early).verdict[0])


def test_the_verdict_says_how_good_how_fast_and_where_the_run_fails(wording: Wording) -> None:
    wording(verdict_of(document_of(evidence())))


def test_the_denominators_stand_in_every_report(wording: Wording) -> None:
    rows = [
        *(fact(i, "yes", "yes") for i in range(4)),
        fact(4, "y", "yes", finish_reason="length"),
        fact(5, None, "yes", failure="model", error_code="refused"),
        fact(6, None, "yes"),
        fact(7, None, "yes", status="quarantined"),
    ]
    document = document_of(evidence(rows, total=10))
    assert cells_of(tables_of(document)["denominators"]) == [("10", "5", "6", "1", "2", "0", "2", "20.0 %")]
    wording(limits_of(document))
    wording(document.verdict[2])
    headline = cells_of(tables_of(document)["headline"])[0]
    assert headline[3:] == ("6", "2", "0", "0.500", "0.750", "–")
    assert document.headline[0]["infrastructure_failures"] == 2


def test_a_complete_run_without_mistakes_says_so(wording: Wording) -> None:
    document = document_of(evidence([fact(i, "yes", "yes") for i in range(3)]))
    assert (document.state, document.tone) == ("succeeded", "good")
    wording(document.verdict[2])
    wording(section_of(document, "mistakes-section").lead)


def test_a_state_that_is_final_is_not_recomputed() -> None:
    document = document_of(evidence(state="CANCELLED", finished_at="2026-01-01T00:02:00Z"))
    assert (document.state, document.tone) == ("cancelled", "bad")
    assert document.finished_at == "2026-01-01T00:02:00Z"


def test_the_weakest_groups_are_named_where_groups_are_large_enough(wording: Wording) -> None:
    rows = [fact(i, "yes" if i % 2 == 0 else "no", "yes") for i in range(12)]
    wording(document_of(evidence(rows)).verdict[2])


def test_an_error_rate_is_weakest_where_it_is_highest(wording: Wording) -> None:
    rows = [fact(i, "yes" if i % 2 == 0 else "no", "yes") for i in range(12)]
    document = document_of(evidence(rows, metrics=(Cer(),)))
    wording(verdict_of(document))
    assert figures_of(document)["quality-by-doc-class"].categories == ("ticket", "receipt")


def test_mistakes_are_chosen_from_every_kind_and_compared_with_the_references() -> None:
    rows = [
        fact(0, "receipt", "Riga", references=["Riga"]),
        fact(1, "Riga", "receipt", references=["receipt"]),
        fact(2, "Oslo", "Rome"),
        fact(3, None, "Rome", failure="model", error_code=None),
        fact(4, "Rom", "Rome", finish_reason="length", images=[]),
    ]
    document = document_of(evidence(rows))
    (cases,) = [block for block in section_of(document, "mistakes-section").blocks if isinstance(block, Cases)]
    by_key = {case.key: case for case in cases.items}
    assert {key: case.kind for key, case in by_key.items()} == {
        "s0": Mistake.NEIGHBOUR,
        "s1": Mistake.NEIGHBOUR,
        "s2": Mistake.DIFFERENT,
        "s3": "failed: unknown",
        "s4": Mistake.CUT_OFF,
    }
    assert by_key["s0"].references == ("Riga",)
    assert by_key["s3"].answers[0].note == "failed: unknown"
    assert by_key["s4"].answers[0].note == Mistake.CUT_OFF
    assert by_key["s4"].answers[0].score == "ANLS 0.75"
    assert by_key["s4"].images == ()
    assert document.images == ("a" * 64, "b" * 64)


def test_quality_is_shown_by_each_group_column_with_metrics_of_one_scale_together() -> None:
    document = document_of(evidence(metrics=(ExactMatch(), Anls(), Cer(), Bleu())))
    figures = figures_of(document)
    by_class = figures["quality-by-doc-class"]
    assert [series.name for series in by_class.series] == ["Exact match", "ANLS"]
    assert set(by_class.categories) == {"receipt", "ticket"}
    assert "quality-by-question-type-and-doc-class" in figures
    assert tables_of(document)["by-doc-class"].is_collapsed
    assert write_cell(tables_of(document)["headline"].rows[3][2]) == "–"  # corpus BLEU of one-word answers


def test_a_matrix_of_a_pooled_metric_pools_each_cell() -> None:
    document = document_of(evidence(metrics=(Cer(),)))
    matrix = next(figure for figure in document.figures if figure.kind == "matrix")
    assert matrix.cell_labels[1][0] == "0.33 · 1"
    assert matrix.cells[1][0] == 1.0


def test_answers_without_a_group_are_a_group_of_their_own() -> None:
    rows = [fact(i, "yes", "yes", **{"group.doc_class": None if i else "receipt"}) for i in range(3)]
    assert "(none)" in figures_of(document_of(evidence(rows)))["quality-by-doc-class"].categories


def test_the_spec_of_a_run_sets_its_group_columns() -> None:
    metrics = (ExactMatch(),)
    run = evidence(metrics=metrics, spec=run_spec(metrics=metrics, group_by=("question_type", "absent")))
    assert run.groups == ("question_type",)
    assert not [figure for figure in document_of(run).figures if figure.kind == "matrix"]


def test_a_group_without_scored_answers_has_no_figure(wording: Wording) -> None:
    document = document_of(evidence([fact(0, None, "yes")]))
    assert section_of(document, "quality").blocks == ()
    wording(verdict_of(document))


def test_the_verdict_of_a_run_without_metrics_has_its_speed(wording: Wording) -> None:
    document = document_of(evidence([fact(i, "yes", "yes") for i in range(4)], metrics=()))
    wording(verdict_of(document))
    wording(section_of(document, "mistakes-section").lead)


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


def test_a_run_whose_requests_were_not_timed_has_no_speed(wording: Wording) -> None:
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
    wording(document.verdict[1])
    assert section_of(document, "performance").blocks == ()
    assert document.headline[0]["latency_p50_ms"] is None
    assert document.headline[0]["peak_memory_bytes"] is None


def test_answers_without_tokens_have_a_latency_and_no_rate_of_tokens(wording: Wording) -> None:
    rows = [fact(0, "a", "a", completion_tokens=None, ttft_user_ns=None, tpot_ns=None, token_source=None)]
    document = document_of(evidence(rows))
    wording(document.verdict[1])
    assert document.headline[0]["output_tokens_per_s"] is None
    assert any(tile.detail == "tokens unknown" for tile in document.tiles)


def test_provenance_names_weights_engine_machine_and_metric_versions() -> None:
    document = document_of(evidence())
    tables = tables_of(document)
    assert cells_of(tables["provenance-weights"]) == [("weights", "d" * 64, "package:tiny/tiny.gguf")]
    (claimed,) = cells_of(tables["provenance-claims"])
    assert claimed[:4] == (CLAIM, "bench", "CPU, 2 threads, 2 GiB", "llama.cpp b1")
    assert claimed[4:7] == ("–", "none", "engine")
    assert [row[0] for row in tables["provenance-metrics"].rows] == [
        *("exact_match@v1:1.0.0", "anls@paper:1.0.0", "cer@jiwer:1.0.0"),
    ]
    assert ("xllamacpp", "0.2", "engine") in tables["provenance-packages"].rows
    blocks = section_of(document, "provenance").blocks
    command = [block for block in blocks if isinstance(block, Listing)]
    assert command[0].text == "llama-server --model 'my model.gguf'"
    (facts,) = [block for block in blocks if isinstance(block, Facts)]
    assert ("phases", "1 accuracy complete") in facts.items


def test_provenance_names_environment_certificate_driver_and_system() -> None:
    machine = {"cpu_model": "CPU", "driver": "570.1", "cuda": "12.8", "distribution": "Debian 12", "kernel": "6.1"}
    used = {"kind": "virtualenv", "key": "0123456789abcdef", "python_version": "3.11.7"}
    certificate = {"created_at": "2026-01-02T03:04:05Z", "file": "engine-1.json"}
    run = evidence(claims=[claim(machine=machine, environment={**used, "certificate": certificate})])
    (claimed,) = cells_of(tables_of(document_of(run))["provenance-claims"])
    assert claimed[2] == "CPU, – threads, –, driver 570.1 (CUDA 12.8), Debian 12, kernel 6.1"
    assert claimed[4:6] == ("virtualenv 0123456789abcdef, Python 3.11.7", "2026-01-02T03:04:05Z")


def test_the_configuration_says_where_values_were_written_but_for_defaults() -> None:
    origins = {"task": "--task", "decoding.max_tokens": "tasks/t.yaml:7", "decoding.seed": "default"}
    run = replace(evidence(), origins=origins)
    rows = {row[0]: row[2] for row in cells_of(tables_of(document_of(run))["origins"])}
    assert (rows["task"], rows["decoding.max_tokens"]) == ("--task", "tasks/t.yaml:7")
    assert "decoding.seed" not in rows
    assert "origins" not in tables_of(document_of(evidence()))


def test_provenance_names_the_machine_that_was_rented() -> None:
    rented = {
        "kind": "remote",
        "cloud": "runpod",
        "region": "CA",
        "instance_type": "1x_L4_SECURE",
        "accelerators": "L4:1",
    }
    engine = {"name": "llama.cpp", "version": "1.2", "environment": rented}
    run = evidence(claims=[claim(engine=engine, measured_at="tunnel")])
    (claimed,) = cells_of(tables_of(document_of(run))["provenance-claims"])
    assert claimed[3] == "llama.cpp 1.2, on 1x_L4_SECURE with L4:1 of runpod/CA"
    assert claimed[6] == "tunnel"


def test_accelerators_are_named_and_their_memory_counts() -> None:
    machine = {"cpu_model": "CPU", "devices": [{"kind": "gpu", "name": "H100"}, {"kind": "cpu", "name": "CPU"}]}
    resources = {"accelerator_memory_used_bytes_peak": 2048, "engine_rss_bytes_peak": 1}
    run = evidence(claims=[claim(machine=machine, resources=resources)])
    (claimed,) = cells_of(tables_of(document_of(run))["provenance-claims"])
    assert claimed[2] == "CPU, – threads, –, H100"
    assert performance_of(run).peak_memory_bytes == 2048


def test_an_endpoint_has_the_hashes_that_its_engine_reports_and_its_address_shows_no_user(wording: Wording) -> None:
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
    ((role, sha256, location),) = tables_of(document)["provenance-weights"].rows
    assert (role, sha256) == ("weights", "7" * 64)
    wording(location)


def test_a_run_that_was_not_measured_shows_no_claims() -> None:
    document = document_of(evidence([], claims=[], phases=[], manifest_id=None, samples=None, total=None))
    assert "provenance-claims" not in tables_of(document)
    assert document.headline[0]["requested"] == 0
    assert [tile.value for tile in document.tiles if tile.label == "answered"] == ["–"]
    assert document.finished_at is None


def test_configuration_shows_the_prompts_and_the_first_as_it_was_sent(wording: Wording) -> None:
    metrics = (ExactMatch(),)
    prompt = PromptSpec(name="p", version="1.0.0", fixed_system_prompt="Be brief.", user_prompt="{{ question }}!")
    document = document_of(evidence(metrics=metrics, spec=run_spec(metrics=metrics, prompt=prompt)))
    listings = [block for block in section_of(document, "configuration").blocks if isinstance(block, Listing)]
    assert [listing.text for listing in listings] == ["Be brief.", "{{ question }}!", "Question 0?"]
    wording("\n".join(listing.title for listing in listings))


def test_a_metric_that_a_run_has_twice_is_named_with_its_profile() -> None:
    run = evidence(metrics=(Anls(), Anls(profile="inclusive")))
    assert [scored.label for scored in run.scored] == ["ANLS (paper)", "ANLS (inclusive)"]
    assert list(document_of(run).headline[0]["metrics"]) == ["anls@paper", "anls@inclusive"]


def test_every_figure_of_a_report_has_a_name_of_its_own_and_a_description() -> None:
    figures: tuple[FigureSpec, ...] = document_of(evidence()).figures
    assert len({figure.name for figure in figures}) == len(figures) > 0
    assert all(figure.alt and figure.table.rows for figure in figures)


def test_a_run_that_took_no_time_has_no_rate(wording: Wording) -> None:
    """Every request ends when it is scheduled, so that the window of the run is empty."""
    rows = [fact(0, "a", "a", latency_ns=0, stream_end_ns=0, ttft_user_ns=0)]
    document = document_of(evidence(rows))
    assert document.headline[0]["samples_per_s"] is None
    wording(document.verdict[1])


def test_an_undefined_pooled_value_leaves_its_cell_empty() -> None:
    run = evidence(metrics=(Cer(),))
    scored = run.scored[0]
    uncounted = scored.measures.with_columns(stat_count=0.0).drop("stat.count").rename({"stat_count": "stat.count"})
    emptied = replace(scored, measures=uncounted)
    run = evidence(metrics=(Cer(),), scored=[emptied])
    document = document_of(run)
    assert not any(figure.name.startswith("quality-by-doc-class-and") for figure in document.figures)


def test_settings_are_written_as_readable_text() -> None:
    assert plain({"b": True, "a": [1, None], "c": False, "d": {}, "e": []}) == "a=1, –, b=yes, c=no, d=–, e=–"


def test_sizes_have_binary_units() -> None:
    assert (size(512), size(1536), size(2.0**60)) == ("512\u00a0B", "1.5\u00a0KiB", "1 048 576\u00a0TiB")


def test_licence_and_category_stand_where_the_run_is_traced() -> None:
    plain = evidence([fact(0, "a", "a")])
    target = plain.spec.target.model_copy(update={"license": "Apache-2.0"})
    spec = plain.spec.model_copy(update={"category": "document_question_answering", "target": target})
    document = document_of(replace(plain, spec=spec))
    facts = [block for block in blocks_of(document) if isinstance(block, Facts)]
    shown = {text for block in facts for _, text in block.items}
    assert {"Apache-2.0", "document-qa 1.0.0 (document_question_answering)"} <= shown


def test_a_licence_that_nobody_states_is_unknown_and_a_recipe_is_named_with_its_inputs_and_tools() -> None:
    plain = evidence([fact(0, "a", "a")])
    source = ModelFile(role="weights", location="/f16.gguf", sha256="a" * 64)
    recipe = RecipeSpec(source="reader", quantize="Q4_0", sources=(source,), quantizer=QUANTIZER)
    target = plain.spec.target.model_copy(update={"license": None, "recipe": recipe})
    document = document_of(replace(plain, spec=plain.spec.model_copy(update={"target": target})))
    shown = dict(item for block in blocks_of(document) if isinstance(block, Facts) for item in block.items)
    assert shown["licence of the weights"] == "unknown"
    assert shown["weights made of"] == "reader, quantised to Q4_0 by cyllama==0.2.18"
    assert shown["inputs of the recipe"] == f"weights {'a' * 64}"
