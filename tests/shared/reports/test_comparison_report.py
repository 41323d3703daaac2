"""The comparison: paired with the first run, flips with pages, and what cannot be compared."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.shared.reports.builders import MS, claim, comparison_of, evidence, fact, reported, run_spec, samples_of
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.reports.comparing import compare, rows, sections
from vlmhyperbench.reports.document import Block, Cases, Document, Table, write_cell
from vlmhyperbench.reports.samples import read_samples
from vlmhyperbench.reports.sections import cases
from vlmhyperbench.reports.sections.differences import pair_runs, why_they_disagree
from vlmhyperbench.reports.writers.json import to_json
from vlmhyperbench.reports.writers.markdown import sections_to_markdown, to_markdown
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench_text_metrics import Anls, Cer, ExactMatch


def _blocks(document: Document, section: str) -> list[Block]:
    return [block for one in document.sections if one.name == section for block in one.blocks]


def _tables(document: Document) -> dict[str, Table]:
    blocks = [block for section in document.sections for block in section.blocks]
    return {block.name: block for block in blocks if isinstance(block, Table)}


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
    return evidence(rows, name=name, id=f"{name}-0000", **changes)  # type: ignore[arg-type]


def test_the_verdict_says_what_differs_in_quality_in_speed_and_in_which_answers() -> None:
    document = comparison_of(
        "e", "demo", "DONE", [_run("base", "1" * 40), _run("small", "1" * 20 + "0" * 20, latency_ms=10)]
    )
    quality, speed, flips = document.verdict
    assert quality.startswith("small is worse than base in exact match: 0.500 against 1.000, a difference of −0.500")
    assert quality.endswith("40 pairs, p = 0.003, p = 0.008 after Holm for 3 metrics).")
    assert speed.startswith("small is 50\u00a0% faster at the median (10\u00a0ms against 20\u00a0ms")
    assert flips == (
        "From base to small 20 of 40 answers broke and 0 were mended; most often, 20 times, about the question type "
        "‘kind’."
    )


def test_an_interrupted_run_has_no_verdict_on_its_speed() -> None:
    other = _run("small", "1" * 40, latency_ms=10)
    broken = evidence(
        [fact(0, "yes", "yes"), fact(1, "yes", "yes", claim_id="other")],
        name="base",
        id="base-0000",
        claims=[claim(), claim(id="other")],
    )
    document = comparison_of("e", "demo", "DONE", [broken, other])
    assert "Speeds are not compared, because base was interrupted, or timed in part." in document.verdict


def test_speeds_that_were_measured_otherwise_are_said_to_be() -> None:
    spec = run_spec(scenario=ScenarioSpec(in_flight=8))
    other = _run("busy", "1" * 40, latency_ms=10, spec=spec, manifest_id="8" * 64)
    document = comparison_of("e", "demo", "DONE", [_run("base", "1" * 40), other])
    assert document.verdict[1] == "busy is another measurement than base, by their samples and scenario.in_flight."


def _of(data_set: str, name: str, texts: str) -> RunEvidence:
    """Make a run of a data set whose keys are those of every other."""
    spec = run_spec(metrics=(ExactMatch(), Anls(), Cer()))
    spec = spec.model_copy(update={"dataset": spec.dataset.model_copy(update={"name": data_set})})
    return _run(f"{name} · {data_set}", texts, spec=spec, manifest_id=data_set)


def test_a_run_of_another_data_set_stands_in_the_tables_and_is_paired_with_nothing() -> None:
    runs = [_of("invoices", "a", "1" * 40), _of("receipts", "a", "0" * 40)]
    document = comparison_of("e", "demo", "DONE", runs)
    assert document.verdict == (
        "There are not two runs of one data set to compare.",
        "Nothing can be paired.",
        "No answer could flip.",
    )
    found = {one.name: one for one in document.sections}
    assert found["differences"].lead == "No run can be paired with a baseline."
    assert not {"parity", "ranking"} & set(found)
    assert [row[0] for row in _tables(document)["headline"].rows] == ["invoices", "receipts"]


def test_two_models_on_two_data_sets_are_compared_on_each() -> None:
    runs = [_of(of, name, texts) for name, texts in (("a", "1" * 40), ("b", "0" * 40)) for of in ("inv", "rec")]
    document = comparison_of("e", "demo", "DONE", runs)
    assert document.subtitle.endswith("the baselines are a · inv and a · rec")
    assert document.verdict[0].startswith("b · inv is worse than a · inv in exact match")
    assert "b · rec is worse than a · rec in exact match" in document.verdict[0]
    assert document.verdict[2].startswith(
        "From a · inv to b · inv 40 of 40 answers broke and 0 were mended; from a · rec to b · rec 40 of 40"
    )
    deltas = _tables(document)["deltas"]
    assert [row[0] for row in deltas.rows[::3]] == ["b · inv against a · inv", "b · rec against a · rec"]
    lead = next(one.lead for one in document.sections if one.name == "differences")
    assert "Every data set's first run is its baseline." in lead


def test_better_runs_and_equal_speeds_are_said_too() -> None:
    quality, speed, _ = comparison_of(
        "e", "demo", "DONE", [_run("base", "1" * 20 + "0" * 20), _run("large", "1" * 40)]
    ).verdict
    assert quality.startswith("large is better than base")
    assert "a difference of +0.500" in quality
    assert speed.startswith("large is about as fast at the median")


def test_a_slower_run_is_called_slower() -> None:
    speed = comparison_of("e", "d", "DONE", [_run("a", "10"), _run("b", "10", latency_ms=40)]).verdict[1]
    assert "100\u00a0% slower" in speed


def test_few_flips_are_no_pattern() -> None:
    flips = comparison_of("e", "demo", "DONE", [_run("base", "1110"), _run("other", "1101")]).verdict[2]
    assert flips == "From base to other 1 of 4 answers broke and 1 were mended."


def test_headline_rows_stand_in_the_order_of_the_runs() -> None:
    document = comparison_of("e", "demo", "PARTIAL", [_run("b", "11"), _run("a", "1-")])
    assert [row["name"] for row in document.headline] == ["b", "a"]
    assert [row["state"] for row in document.headline] == ["SUCCEEDED", "PARTIAL"]
    assert (document.state, document.tone) == ("partial", "neutral")
    assert set(document.data) == {"b-0000", "a-0000"}


def test_the_denominators_and_bounds_of_every_run_are_shown() -> None:
    tables = _tables(comparison_of("e", "demo", "DONE", [_run("b", "11"), _run("a", "1-")]))
    rows = [[write_cell(cell) for cell in row] for row in tables["denominators"].rows]
    assert [row[:6] for row in rows] == [["b", "2", "2", "2", "0", "0"], ["a", "2", "1", "1", "0", "1"]]
    bounds = {(row[0], row[1]): [write_cell(cell) for cell in row[2:]] for row in tables["bounds"].rows}
    assert bounds["a", "Exact match"] == ["1", "1", "0.500", "1.000"]


def test_differences_lie_on_each_metrics_own_scale_and_right_is_better() -> None:
    document = comparison_of("e", "demo", "DONE", [_run("base", "1" * 40), _run("small", "1" * 20 + "0" * 20)])
    figure = next(figure for figure in document.figures if figure.name == "differences-figure")
    (series,) = figure.series
    assert all(value is not None and value < 0 for value in series.x)
    assert series.x[0] == -50.0
    cer = next(row for row in _tables(document)["deltas"].rows if row[0] == "Character error rate")
    assert write_cell(cer[3]).startswith("+")
    assert cer[-1] == "worse"
    assert (cer[4], cer[5]) == ("0.003", "0.008")
    assert str(cer[6]).startswith("±")
    assert cer[8] == "0 / 20 / 20"


def test_an_interval_that_leaves_0_out_beside_a_p_value_of_1_has_its_reason_wherever_it_is_shown() -> None:
    runs = [_run("base", "1" * 54 + "0" * 6), _run("small", "1" * 60)]
    document = comparison_of("e", "demo", "DONE", runs)
    (delta, *_) = pair_runs(*map(reported, runs)).deltas
    reason = why_they_disagree(delta)
    assert delta.disagreement == "test"
    assert reason
    assert reason in document.verdict[0]
    assert reason in str(_tables(document)["deltas"].rows[0][-1])
    assert reason in to_markdown(document, images={}).decode()
    assert reason in to_json(document).decode()
    first, second = (read_samples(samples_of(run), what="a file") for run in runs)
    compared = compare(first, second)
    assert reason in sections_to_markdown("Gate", sections([compared])).decode()
    told = json.dumps(rows(compared)["metrics"])
    assert f'"disagreement": "test", "disagreement_reason": "{reason}"' in told


def test_each_reason_is_another_sentence() -> None:
    (delta, *_) = pair_runs(reported(_run("base", "1" * 40)), reported(_run("small", "1" * 20 + "0" * 20))).deltas
    several = [
        delta,
        replace(delta, p_value=0.3, p_adjusted=0.3),
        replace(delta, low=-1.0, high=1.0),
        replace(delta, p_adjusted=1.0),
    ]
    assert [delta.disagreement for delta in several] == [None, "test", "interval", "holm"]
    assert len({why_they_disagree(delta) for delta in several}) == 4


def test_several_runs_are_named_in_the_table_of_differences() -> None:
    runs = [_run("base", "1100"), _run("b", "1010"), _run("c", "0011")]
    document = comparison_of("e", "demo", "DONE", runs)
    assert [row[0] for row in _tables(document)["deltas"].rows] == ["b"] * 3 + ["c"] * 3
    assert "b is not shown to differ" in document.verdict[0]
    assert "c is not shown to differ" in document.verdict[0]
    assert {"flip-matrix-1", "flip-matrix-2"} <= {figure.name for figure in document.figures}


def test_flips_are_shown_with_pages_and_both_answers() -> None:
    document = comparison_of("e", "demo", "DONE", [_run("base", "1101"), _run("other", "1011")])
    matrix, shown = _blocks(document, "flips")
    assert isinstance(shown, Cases)
    assert [case.kind for case in shown.items] == ["broke", "mended"]
    assert [answer.run for answer in shown.items[0].answers] == ["base", "other"]
    assert [answer.tone for answer in shown.items[0].answers] == ["good", "bad"]
    assert shown.items[0].images == ("00" * 32,)
    assert matrix.cell_labels == (  # type: ignore[union-attr]
        ("2 (50.0\u00a0%)", "1 (25.0\u00a0%)"),
        ("1 (25.0\u00a0%)", "0 (0.0\u00a0%)"),
    )


def test_without_flips_there_is_only_the_matrix() -> None:
    document = comparison_of("e", "demo", "DONE", [_run("base", "11"), _run("other", "11")])
    assert len(_blocks(document, "flips")) == 1


def test_answers_that_one_run_lacks_are_no_flips() -> None:
    first, second = _run("base", "1-1"), _run("other", "10")
    assert cases.find_flips(first, second) == []
    assert cases.most_flipped([], ("doc_class",)) is None


def test_flips_without_groups_have_no_pattern() -> None:
    flips = cases.find_flips(_run("base", "1111"), _run("other", "0000"))
    assert cases.most_flipped(flips, ()) is None
    assert cases.most_flipped(flips, ("doc_class",)) == ("doc_class", "receipt", 2)


def test_runs_of_other_metrics_are_not_paired() -> None:
    other = _run("other", "10", metrics=(Anls(),), spec=run_spec(metrics=(Anls(),)))
    first = _run("base", "10", metrics=(ExactMatch(),))
    document = comparison_of("e", "demo", "DONE", [first, other])
    assert document.verdict[0] == "other shares no metric with base that is defined alike."
    assert document.verdict[2] == "No answers could be paired, so none can be said to have flipped."
    assert _blocks(document, "differences") == []
    assert _blocks(document, "flips") == []
    results = _tables(document)["headline"]
    assert [write_cell(cell) for cell in results.rows[1]][1] == "–"


def test_one_metric_alone_needs_no_figure_of_differences() -> None:
    runs = [_run("base", "1010", metrics=(ExactMatch(),)), _run("other", "1110", metrics=(ExactMatch(),))]
    names = {figure.name for figure in comparison_of("e", "demo", "DONE", runs).figures}
    assert "differences-figure" not in names


def test_runs_without_metrics_or_times_still_stand_side_by_side() -> None:
    untimed = [fact(0, "a", "b", latency_ns=None, ttft_user_ns=None, ttft_service_ns=None, tpot_ns=None, queue_ns=None)]
    runs = [evidence(untimed, name=name, id=name, metrics=()) for name in ("a", "b")]
    document = comparison_of("e", "demo", "DONE", runs)
    assert document.verdict[1] == "Speeds cannot be compared: a run was not timed."
    assert _blocks(document, "performance") == []
    assert _blocks(document, "quality") == []
    assert [tile.value for tile in document.tiles] == ["–", "–"]


def test_runs_in_which_nothing_was_answered_have_no_figures_of_quality() -> None:
    document = comparison_of("e", "demo", "DONE", [_run("a", "--"), _run("b", "--")])
    assert _blocks(document, "quality") == []


def test_fewer_than_two_runs_are_no_comparison() -> None:
    empty = comparison_of("e", "demo", "CANCELLED", [])
    assert (empty.subtitle, empty.headline, empty.finished_at) == ("No run", (), "")
    alone = comparison_of("e", "demo", "DONE", [_run("only", "10")])
    assert alone.verdict[0] == "There are not two runs of one data set to compare."


def test_configuration_shows_what_differs_and_folds_what_is_the_same() -> None:
    metrics = (ExactMatch(), Anls(), Cer())
    first = _run("a", "10")
    spec = run_spec(metrics=metrics)
    other = _run("b", "10", spec=spec.model_copy(update={"on_model_failure": "exclude"}))
    tables = _tables(comparison_of("e", "demo", "DONE", [first, other]))
    assert tables["config-diff"].rows == (("model failures count as", "wrong", "unscored"),)
    assert tables["config-same"].is_collapsed
    same = _tables(comparison_of("e", "demo", "DONE", [first, _run("b", "10")]))
    assert "config-diff" not in same


def test_what_all_names_begin_or_end_with_is_left_out_and_equal_names_get_ids() -> None:
    runs = [_run("x · f16 · qa", "10"), _run("x · q4 · qa", "10")]
    assert [row["name"] for row in comparison_of("e", "d", "DONE", runs).headline] == ["f16", "q4"]
    twice = [evidence(name="same", id="11111111-1"), evidence(name="same", id="22222222-2")]
    assert [row["name"] for row in comparison_of("e", "d", "DONE", twice).headline] == [
        *("same 11111111", "same 22222222"),
    ]


def test_parity_says_which_answers_part_and_where() -> None:
    texts = ["yes", "yes sir", "no"]
    runs = [
        evidence([fact(i, text, "yes") for i, text in enumerate(said)], name=name)
        for name, said in (("F16", texts), ("Q4", ["yes", "yes madam", "yes"]), ("Q8", texts))
    ]
    document = comparison_of("id", "parity", "DONE", runs)
    (section,) = [one for one in document.sections if one.name == "parity"]
    assert section.lead == (
        "Q4: 1 of 3 answers (33.3\u00a0%) are the same text; 1 difference changes the score. "
        "Q8: 3 of 3 answers (100.0\u00a0%) are the same text."
    )
    summary, where = (block for block in section.blocks if isinstance(block, Table))
    assert summary.rows[0][:2] == ("Q4", 3)
    assert {row[0]: row[1:] for row in where.rows} == {
        "s1": (2, "sir", "madam", "same"),
        "s2": (1, "no", "yes", "changes"),
    }


def _matrix(*runs: RunEvidence) -> Table | None:
    return _tables(comparison_of("e", "demo", "DONE", list(runs))).get("matrix")


def _asked(name: str, task: str, model: str, texts: str = "1" * 8, **changes: object) -> RunEvidence:
    spec = run_spec()
    target = spec.target.model_copy(update={"model": model, "quantization": None})
    return _run(name, texts, spec=spec.model_copy(update={"task": task, "target": target}), **changes)


def test_a_matrix_has_the_table_models_by_tasks_with_an_interval_in_each_cell() -> None:
    lost = evidence([], name="b · u", id="lost-0000", spec=_asked("b", "u", "b").spec, scored=())
    asked = [
        _asked("a · t", "t", "a", "1" * 40),
        _asked("b · t", "t", "b", "1" * 20 + "0" * 20),
        _asked("a · u", "u", "a"),
        lost,
    ]
    tables = _tables(comparison_of("e", "demo", "DONE", asked))
    found, quality = tables["matrix"], tables["headline"]
    assert [column.title for column in found.columns] == ["model", "t · Exact match", "u · Exact match"]
    (a_on_t, b_on_t, a_on_u, _) = [row[1] for row in quality.rows]
    assert found.rows == (("a", a_on_t, a_on_u), ("b", b_on_t, None))
    assert write_cell(b_on_t).startswith("0.500 (")


def test_one_model_on_one_task_is_no_matrix_and_a_cell_has_one_run() -> None:
    assert _matrix(_asked("a", "t", "a"), _asked("a again", "t", "a")) is None
    found = _matrix(_asked("a · offline", "t", "a"), _asked("a · single", "t", "a"), _asked("b", "t", "b"))
    assert found is not None
    assert [row[0] for row in found.rows] == ["a · offline", "a · single", "b"]
