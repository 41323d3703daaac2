"""The comparison: paired with the first run, flips with pages, and what cannot be compared."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.shared.reports.builders import MS, claim, comparison_of, evidence, fact, reported, run_spec, samples_of
from tests.shared.reports.reading import cells_of, figures_of, section_of, tables_of, verdict_of
from tests.support.wording import Wording
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.reports.comparing import compare, rows, sections
from vlmhyperbench.reports.document import Cases, Table, write_cell
from vlmhyperbench.reports.samples import read_samples
from vlmhyperbench.reports.sections import cases
from vlmhyperbench.reports.sections.differences import pair_runs, why_they_disagree
from vlmhyperbench.reports.writers.json import to_json
from vlmhyperbench.reports.writers.markdown import sections_to_markdown, to_markdown
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench_text_metrics.anls import Anls
from vlmhyperbench_text_metrics.cer import Cer
from vlmhyperbench_text_metrics.exact_match import ExactMatch


def _run(name: str, texts: str, *, latency_ms: int = 20, **changes: object) -> RunEvidence:
    """Make a run that answers right where `texts` has a 1; `-` is lost to the infrastructure."""
    rows = [
        fact(
            i,
            {"1": "yes", "0": "no", "-": None}[letter],
            "yes",
            latency_ns=latency_ms * MS,
            images=[f"{i // 2:02x}" * 32],
        )
        for i, letter in enumerate(texts)
    ]
    return evidence(rows, name=name, id=f"{name}-0000", **changes)


def test_the_verdict_says_what_differs_in_quality_in_speed_and_in_which_answers(wording: Wording) -> None:
    document = comparison_of(
        "e", "demo", "DONE", [_run("base", "1" * 40), _run("small", "1" * 20 + "0" * 20, latency_ms=10)]
    )
    wording(verdict_of(document))


def test_an_interrupted_run_has_no_verdict_on_its_speed(wording: Wording) -> None:
    other = _run("small", "1" * 40, latency_ms=10)
    broken = evidence(
        [fact(0, "yes", "yes"), fact(1, "yes", "yes", claim_id="other")],
        name="base",
        id="base-0000",
        claims=[claim(), claim(id="other")],
    )
    wording(comparison_of("e", "demo", "DONE", [broken, other]).verdict[1])


def test_the_verdict_says_why_speeds_of_two_settings_are_not_compared(wording: Wording) -> None:
    spec = run_spec(scenario=ScenarioSpec(in_flight=8))
    other = _run("busy", "1" * 40, latency_ms=10, spec=spec, manifest_id="8" * 64)
    wording(comparison_of("e", "demo", "DONE", [_run("base", "1" * 40), other]).verdict[1])


def _of(data_set: str, name: str, texts: str) -> RunEvidence:
    """Make a run of a data set whose keys are those of every other."""
    spec = run_spec(metrics=(ExactMatch(), Anls(), Cer()))
    spec = spec.model_copy(update={"dataset": spec.dataset.model_copy(update={"name": data_set})})
    return _run(f"{name} · {data_set}", texts, spec=spec, manifest_id=data_set)


def test_a_run_of_another_data_set_stands_in_the_tables_and_is_paired_with_no_run(wording: Wording) -> None:
    runs = [_of("invoices", "a", "1" * 40), _of("receipts", "a", "0" * 40)]
    document = comparison_of("e", "demo", "DONE", runs)
    wording(verdict_of(document))
    wording(section_of(document, "differences").lead)
    assert not {"parity", "ranking"} & {section.name for section in document.sections}
    assert [row[0] for row in tables_of(document)["headline"].rows] == ["invoices", "receipts"]


def test_two_models_on_two_data_sets_are_compared_on_each(wording: Wording) -> None:
    runs = [_of(of, name, texts) for name, texts in (("a", "1" * 40), ("b", "0" * 40)) for of in ("inv", "rec")]
    document = comparison_of("e", "demo", "DONE", runs)
    wording(document.subtitle)
    wording(verdict_of(document))
    assert [row[0] for row in tables_of(document)["deltas"].rows[::3]] == [
        *("b · inv against a · inv", "b · rec against a · rec"),
    ]
    wording(section_of(document, "differences").lead)


def test_the_verdict_calls_a_run_better_and_its_speed_equal(wording: Wording) -> None:
    runs = [_run("base", "1" * 20 + "0" * 20), _run("large", "1" * 40)]
    wording(verdict_of(comparison_of("e", "demo", "DONE", runs)))


def test_the_verdict_calls_a_slower_run_slower(wording: Wording) -> None:
    wording(comparison_of("e", "d", "DONE", [_run("a", "10"), _run("b", "10", latency_ms=40)]).verdict[1])


def test_the_verdict_names_no_group_for_a_few_flips(wording: Wording) -> None:
    wording(comparison_of("e", "demo", "DONE", [_run("base", "1110"), _run("other", "1101")]).verdict[2])


def test_headline_rows_stand_in_the_order_of_the_runs() -> None:
    document = comparison_of("e", "demo", "PARTIAL", [_run("b", "11"), _run("a", "1-")])
    assert [row["name"] for row in document.headline] == ["b", "a"]
    assert [row["state"] for row in document.headline] == ["SUCCEEDED", "PARTIAL"]
    assert (document.state, document.tone) == ("partial", "neutral")
    assert set(document.runs) == {"b-0000", "a-0000"}


def test_the_denominators_and_bounds_of_every_run_are_shown() -> None:
    tables = tables_of(comparison_of("e", "demo", "DONE", [_run("b", "11"), _run("a", "1-")]))
    assert [row[:6] for row in cells_of(tables["denominators"])] == [
        ("b", "2", "2", "2", "0", "0"),
        ("a", "2", "1", "1", "0", "1"),
    ]
    bounds = {(row[0], row[1]): [write_cell(cell) for cell in row[2:]] for row in tables["bounds"].rows}
    assert bounds["a", "Exact match"] == ["1", "1", "0.500", "1.000"]


def test_the_figure_of_differences_uses_each_metrics_own_scale_and_right_is_better() -> None:
    document = comparison_of("e", "demo", "DONE", [_run("base", "1" * 40), _run("small", "1" * 20 + "0" * 20)])
    (series,) = figures_of(document)["differences-figure"].series
    assert all(value is not None and value < 0 for value in series.x)
    assert series.x[0] == -50.0
    cer = next(row for row in tables_of(document)["deltas"].rows if row[0] == Cer().description.title)
    assert write_cell(cer[3]).startswith("+")
    assert cer[-1] == "worse"
    assert (cer[4], cer[5]) == ("0.003", "0.008")
    assert str(cer[6]).startswith("±")
    assert cer[8] == "0 / 20 / 20"


def test_the_reason_why_interval_and_test_disagree_is_shown_in_every_form() -> None:
    runs = [_run("base", "1" * 54 + "0" * 6), _run("small", "1" * 60)]
    document = comparison_of("e", "demo", "DONE", runs)
    (delta, *_) = pair_runs(*map(reported, runs)).deltas
    reason = why_they_disagree(delta)
    assert delta.disagreement == "test"
    assert reason
    assert reason in document.verdict[0]
    assert reason in str(tables_of(document)["deltas"].rows[0][-1])
    assert reason in to_markdown(document, images={}).decode()
    assert reason in to_json(document).decode()
    first, second = (read_samples(samples_of(run), what="a file") for run in runs)
    compared = compare(first, second)
    assert reason in sections_to_markdown("Gate", sections([compared])).decode()
    (metric, *_) = json.loads(json.dumps(rows(compared)["metrics"])).values()
    assert (metric["disagreement"], metric["disagreement_reason"]) == ("test", reason)


def test_each_disagreement_has_a_reason_of_its_own(wording: Wording) -> None:
    (delta, *_) = pair_runs(reported(_run("base", "1" * 40)), reported(_run("small", "1" * 20 + "0" * 20))).deltas
    several = [
        delta,
        replace(delta, p_value=0.3, p_adjusted=0.3),
        replace(delta, low=-1.0, high=1.0),
        replace(delta, p_adjusted=1.0),
    ]
    assert [delta.disagreement for delta in several] == [None, "test", "interval", "holm"]
    reasons = [why_they_disagree(delta) for delta in several]
    assert len(set(reasons)) == 4
    wording("\n".join(reasons))


def test_several_runs_are_named_in_the_table_of_differences(wording: Wording) -> None:
    runs = [_run("base", "1100"), _run("b", "1010"), _run("c", "0011")]
    document = comparison_of("e", "demo", "DONE", runs)
    assert [row[0] for row in tables_of(document)["deltas"].rows] == ["b"] * 3 + ["c"] * 3
    wording(document.verdict[0])
    assert {"flip-matrix-1", "flip-matrix-2"} <= set(figures_of(document))


def test_flips_are_shown_with_pages_and_both_answers() -> None:
    document = comparison_of("e", "demo", "DONE", [_run("base", "1101"), _run("other", "1011")])
    section = section_of(document, "flips")
    (shown,) = [block for block in section.blocks if isinstance(block, Cases)]
    (matrix,) = figures_of(section).values()
    assert [case.kind for case in shown.items] == ["broke", "mended"]
    assert [answer.run for answer in shown.items[0].answers] == ["base", "other"]
    assert [answer.tone for answer in shown.items[0].answers] == ["good", "bad"]
    assert shown.items[0].images == ("00" * 32,)
    assert matrix.cell_labels == (
        ("2 (50.0\u00a0%)", "1 (25.0\u00a0%)"),
        ("1 (25.0\u00a0%)", "0 (0.0\u00a0%)"),
    )


def test_without_flips_there_is_only_the_matrix() -> None:
    document = comparison_of("e", "demo", "DONE", [_run("base", "11"), _run("other", "11")])
    assert len(section_of(document, "flips").blocks) == 1


def test_answers_that_one_run_lacks_are_no_flips() -> None:
    first, second = _run("base", "1-1"), _run("other", "10")
    assert cases.find_flips(first, second) == []
    assert cases.most_flipped([], ("doc_class",)) is None


def test_flips_without_groups_have_no_pattern() -> None:
    flips = cases.find_flips(_run("base", "1111"), _run("other", "0000"))
    assert cases.most_flipped(flips, ()) is None
    assert cases.most_flipped(flips, ("doc_class",)) == ("doc_class", "receipt", 2)


def test_runs_of_other_metrics_are_not_paired(wording: Wording) -> None:
    other = _run("other", "10", metrics=(Anls(),), spec=run_spec(metrics=(Anls(),)))
    first = _run("base", "10", metrics=(ExactMatch(),))
    document = comparison_of("e", "demo", "DONE", [first, other])
    wording(verdict_of(document))
    assert section_of(document, "differences").blocks == ()
    assert section_of(document, "flips").blocks == ()
    assert cells_of(tables_of(document)["headline"])[1][1] == "–"


def test_a_single_metric_needs_no_figure_of_differences() -> None:
    runs = [_run("base", "1010", metrics=(ExactMatch(),)), _run("other", "1110", metrics=(ExactMatch(),))]
    assert "differences-figure" not in figures_of(comparison_of("e", "demo", "DONE", runs))


def test_runs_without_metrics_or_times_stand_side_by_side(wording: Wording) -> None:
    untimed = [fact(0, "a", "b", latency_ns=None, ttft_user_ns=None, ttft_service_ns=None, tpot_ns=None, queue_ns=None)]
    runs = [evidence(untimed, name=name, id=name, metrics=()) for name in ("a", "b")]
    document = comparison_of("e", "demo", "DONE", runs)
    wording(document.verdict[1])
    assert section_of(document, "performance").blocks == ()
    assert section_of(document, "quality").blocks == ()
    assert [tile.value for tile in document.tiles] == ["–", "–"]


def test_runs_in_which_nothing_was_answered_have_no_figures_of_quality() -> None:
    document = comparison_of("e", "demo", "DONE", [_run("a", "--"), _run("b", "--")])
    assert section_of(document, "quality").blocks == ()


def test_fewer_than_two_runs_are_no_comparison(wording: Wording) -> None:
    empty = comparison_of("e", "demo", "CANCELLED", [])
    assert (empty.subtitle, empty.headline, empty.finished_at) == ("No run", (), None)
    wording(verdict_of(comparison_of("e", "demo", "DONE", [_run("only", "10")])))


def test_configuration_shows_what_differs_and_folds_what_is_the_same() -> None:
    metrics = (ExactMatch(), Anls(), Cer())
    first = _run("a", "10")
    spec = run_spec(metrics=metrics)
    other = _run("b", "10", spec=spec.model_copy(update={"on_model_failure": "exclude"}))
    tables = tables_of(comparison_of("e", "demo", "DONE", [first, other]))
    assert [row[1:] for row in tables["config-diff"].rows] == [("wrong", "unscored")]
    assert tables["config-same"].is_collapsed
    same = tables_of(comparison_of("e", "demo", "DONE", [first, _run("b", "10")]))
    assert "config-diff" not in same


def test_names_lose_the_parts_that_all_share_and_equal_names_get_ids() -> None:
    runs = [_run("x · f16 · qa", "10"), _run("x · q4 · qa", "10")]
    assert [row["name"] for row in comparison_of("e", "d", "DONE", runs).headline] == ["f16", "q4"]
    twice = [evidence(name="same", id="11111111-1"), evidence(name="same", id="22222222-2")]
    assert [row["name"] for row in comparison_of("e", "d", "DONE", twice).headline] == [
        *("same 11111111", "same 22222222"),
    ]


def test_parity_says_which_answers_differ_and_where(wording: Wording) -> None:
    texts = ["yes", "yes sir", "no"]
    runs = [
        evidence([fact(i, text, "yes") for i, text in enumerate(answers)], name=name, id=name)
        for name, answers in (("F16", texts), ("Q4", ["yes", "yes madam", "yes"]), ("Q8", texts))
    ]
    document = comparison_of("id", "parity", "DONE", runs)
    section = section_of(document, "parity")
    wording(section.lead)
    shares = [row[-1] for row in tables_of(document)["headline"].rows]
    assert [share and share.value for share in shares] == [None, pytest.approx(1 / 3), 1]
    summary, where = tables_of(section).values()
    assert summary.rows[0][:3] == ("Q4", 3, 1)
    assert summary.rows[1][:3] == ("Q8", 3, 3)
    assert {row[0]: row[1:] for row in where.rows} == {
        "s1": (2, "sir", "madam", "same"),
        "s2": (1, "no", "yes", "changes"),
    }


def _matrix(*runs: RunEvidence) -> Table | None:
    return tables_of(comparison_of("e", "demo", "DONE", list(runs))).get("matrix")


def _asked(name: str, task: str, model: str, texts: str = "1" * 8, **changes: object) -> RunEvidence:
    spec = run_spec()
    target = spec.target.model_copy(update={"model": model, "quantization": None})
    return _run(name, texts, spec=spec.model_copy(update={"task": task, "target": target}), **changes)


def test_the_matrix_has_a_row_per_model_a_column_per_task_and_an_interval_in_each_cell() -> None:
    lost = evidence([], name="b · u", id="lost-0000", spec=_asked("b", "u", "b").spec, scored=())
    asked = [
        _asked("a · t", "t", "a", "1" * 40),
        _asked("b · t", "t", "b", "1" * 20 + "0" * 20),
        _asked("a · u", "u", "a"),
        lost,
    ]
    tables = tables_of(comparison_of("e", "demo", "DONE", asked))
    matrix, quality = tables["matrix"], tables["headline"]
    assert [column.title for column in matrix.columns] == ["model", "t · Exact match", "u · Exact match"]
    (a_on_t, b_on_t, a_on_u, _) = [row[1] for row in quality.rows]
    assert matrix.rows == (("a", a_on_t, a_on_u), ("b", b_on_t, None))
    assert write_cell(b_on_t).startswith("0.500 (")


def test_one_model_on_one_task_is_no_matrix_and_a_cell_has_one_run() -> None:
    assert _matrix(_asked("a", "t", "a"), _asked("a again", "t", "a")) is None
    matrix = _matrix(_asked("a · offline", "t", "a"), _asked("a · single", "t", "a"), _asked("b", "t", "b"))
    assert matrix is not None
    assert [row[0] for row in matrix.rows] == ["a · offline", "a · single", "b"]
