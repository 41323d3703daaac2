"""Figures and tables of a report beyond the headline: labels, fields, clusters, lengths, wins, ranks, trade-offs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars

from tests.shared.reports.builders import MS, claim, comparison_of, document_of, evidence, fact
from tests.shared.reports.counting_metrics import Fields, Labels
from tests.shared.reports.reading import figures_of, section_of, tables_of
from tests.support.wording import Wording
from vlmhyperbench.analysis.figures import FigureSpec
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.reports.document import Table, write_cell
from vlmhyperbench.reports.sections import clusters, fields, ranking
from vlmhyperbench.reports.sections.answers import wrong_answers
from vlmhyperbench.reports.sections.groups import MAX_DRAWN_GROUPS
from vlmhyperbench.reports.sections.lengths import length_figures
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench_sdk.protocols import Metric
from vlmhyperbench_text_metrics.anls import Anls
from vlmhyperbench_text_metrics.cer import Cer
from vlmhyperbench_text_metrics.exact_match import ExactMatch

EXACT = (ExactMatch(),)


def _labels(*pairs: tuple[str, str], profiles: tuple[str, ...] = ("v1",)) -> RunEvidence:
    rows = [fact(i, said, right) for i, (right, said) in enumerate(pairs)]
    return evidence(rows, metrics=[Labels(profile) for profile in profiles])


def test_the_confusion_matrix_has_expected_labels_as_rows_and_predicted_labels_as_columns(wording: Wording) -> None:
    run = _labels(("cat", "cat"), ("cat", "cat"), ("cat", "dog"), ("dog", "dog"), ("dog", "eel"))
    figure = figures_of(document_of(run))["confusion-labels"]
    assert (figure.y.title, figure.x.title) == ("expected label", "predicted label")
    assert figure.categories == ("cat", "dog")
    assert figure.columns == ("cat", "dog", "__unparsed__")
    assert figure.cell_labels == (("2", "1", ""), ("", "1", "1"))
    assert figure.cells == ((2 / 3, 1 / 3, None), (None, 0.5, 0.5))
    wording(figure.note)


def test_escaped_labels_are_shown_as_they_are_and_none_is_mistaken_for_unparsed() -> None:
    run = _labels(("a%7Cb", "%5F_unparsed__"), ("%5F_unparsed__", "__unparsed__"), ("50%25", "50%25"))
    figure = figures_of(document_of(run))["confusion-labels"]
    assert figure.categories == ("%5F_unparsed__", "50%", "a|b")
    assert figure.columns == ("%5F_unparsed__", "50%", "a|b", "__unparsed__")
    assert figure.cell_labels == (("", "", "", "1"), ("", "1", "", ""), ("1", "", "", ""))


def test_rare_labels_are_pooled_and_the_note_says_how_many(wording: Wording) -> None:
    run = _labels(*((f"l{i:02}", f"l{i:02}") for i in range(25)))
    figure = figures_of(document_of(run))["confusion-labels"]
    assert len(figure.columns) == 20
    assert figure.cell_labels[-1][-1] == "6"
    wording(figure.note)


def test_profiles_that_count_alike_are_drawn_once() -> None:
    run = _labels(("cat", "dog"), profiles=("macro", "micro"))
    (figure,) = fields.statistics_figures(run)
    assert figure.name.startswith("confusion-labels-macro-")


def test_fields_stand_by_group_with_the_weakest_on_top() -> None:
    rows = [
        fact(0, "total=1;date=2", "total=1;date=2"),
        fact(1, "total=9;date=2", "total=1;date=2"),
        fact(2, "total=9", "total=1;date=2"),
    ]
    figure = figures_of(document_of(evidence(rows, metrics=[Fields()])))["fields-fields"]
    assert figure.categories == ("total", "date")
    assert figure.columns == ("all", "receipt", "ticket")
    assert figure.cell_labels == (("0.33 · 3", "0.50 · 2", "0.00 · 1"), ("0.67 · 3", "0.50 · 2", "1.00 · 1"))
    assert figure.cells[0][2] == 1.0


def test_of_many_fields_only_the_weakest_are_drawn_and_the_note_says_so(wording: Wording) -> None:
    right = ";".join(f"f{i:02}=1" for i in range(30))
    figure = fields.field_matrix(run := evidence([fact(0, "", right)], metrics=[Fields()]), run.scored[0])
    assert figure is not None
    assert len(figure.categories) == fields.MAX_FIELDS
    wording(figure.note)


def test_a_run_without_group_columns_has_its_fields_in_one_column() -> None:
    run = evidence([fact(0, "a=1", "a=1")], metrics=[Fields()])
    bare = replace(run, facts=run.facts.drop("group.doc_class", "group.question_type"))
    figure = fields.field_matrix(bare, bare.scored[0])
    assert figure is not None
    assert figure.columns == ("all",)


def _clusters(run: RunEvidence) -> Table | None:
    return clusters.cluster_table(run, wrong_answers(run))


def test_answers_that_are_wrong_alike_are_counted_together(wording: Wording) -> None:
    rows = [
        fact(0, "12.58", "12.50"),
        fact(2, "13.50", "12.50"),
        fact(1, "12.58", "12.50"),
        fact(4, "", "yes"),
        fact(6, "yes", "yes"),
    ]
    run = evidence(rows)
    table = _clusters(run)
    assert table is not None
    (row,) = table.rows
    assert [write_cell(cell) for cell in row] == [
        "near miss",
        "another digit",
        "receipt",
        "field",
        "2",
        "50.0 %",
        "100.0 %",
        "12.50",
        "12.58",
        "s0",
    ]
    wording(table.note)
    assert tables_of(document_of(run))["clusters"] == table


def test_answers_without_words_in_common_are_no_cluster_of_edits() -> None:
    rows = [fact(i, "x" * 200 + str(i), "yes", **{"group.question_type": None}) for i in (0, 2)]
    table = _clusters(evidence(rows))
    assert table is not None
    assert [write_cell(cell) for cell in table.rows[0]][:4] == ["something else", "–", "receipt", "–"]
    assert str(table.rows[0][-2]).endswith("x…")


def test_a_run_without_groups_or_references_has_clusters_too() -> None:
    run = evidence([fact(i, "", "yes") for i in range(2)])
    bare = replace(run, facts=run.facts.drop("group.doc_class", "group.question_type"))
    table = _clusters(bare)
    assert table is not None
    assert [write_cell(cell) for cell in table.rows[0]] == [
        "no answer",
        "–",
        "2",
        "100.0 %",
        "100.0 %",
        "yes",
        "",
        "s0",
    ]


def test_mistakes_that_all_differ_form_no_cluster() -> None:
    assert _clusters(evidence([fact(0, "", "yes"), fact(1, "no", "yes")])) is None


def test_the_largest_clusters_come_first_and_at_most_twelve() -> None:
    rows = [fact(i, "", "yes", **{"group.question_type": f"q{i // 2 % 14:02}"}) for i in range(28)]
    rows += [fact(28, "", "yes", **{"group.question_type": "q13", "group.doc_class": "receipt"})]
    table = _clusters(evidence([row | {"group.doc_class": "receipt"} for row in rows]))
    assert table is not None
    assert len(table.rows) == clusters.MAX_CLUSTERS
    assert [row[3] for row in table.rows[:2]] == ["q13", "q00"]


def test_lengths_are_those_of_answered_requests(wording: Wording) -> None:
    rows = [fact(0, "a", "a", completion_tokens=3), fact(1, "b", "a", completion_tokens=None), fact(2, None, "a")]
    prompts, answers = length_figures(evidence(rows))
    assert sum(prompts.series[0].y) == 2
    assert answers.table.rows == (("3", 1),)
    wording(answers.note)


def test_lengths_that_nobody_counted_are_not_drawn() -> None:
    rows = [fact(0, "a", "a", completion_tokens=None, prompt_tokens=None, token_source=None)]
    assert length_figures(evidence(rows)) == []


def _run(
    name: str,
    answers: str,
    *,
    latency_ms: int = 20,
    memory: int | None = 2**20,
    metrics: Sequence[Metric] = EXACT,
) -> RunEvidence:
    """A run whose answers are right (1), wrong (0) or lost (-), one document each."""
    rows = [
        fact(
            i,
            None if answer == "-" else "yes" if answer == "1" else "no",
            "yes",
            images=[f"{i:064x}"],
            latency_ns=latency_ms * MS,
        )
        for i, answer in enumerate(answers)
    ]
    resources = {} if memory is None else {"engine_rss_bytes_peak": memory}
    return evidence(rows, name=name, id=name, claims=[claim(resources=resources)], metrics=metrics)


def _compared(*runs: RunEvidence) -> dict[str, FigureSpec]:
    return figures_of(comparison_of("e", "demo", "DONE", runs))


def test_the_front_of_quality_and_latency_is_joined(wording: Wording) -> None:
    runs = [
        _run("base", "1100", latency_ms=20),
        _run("fast", "1000", latency_ms=10),
        _run("poor", "1000", latency_ms=30, memory=2**21),
    ]
    document = comparison_of("e", "demo", "DONE", runs)
    section = section_of(document, "trade-offs")
    wording(section.lead)
    latency, memory = figures_of(section).values()
    wording("\n".join(series.name for series in latency.series))
    assert [series.labels for series in latency.series] == [("fast", "base"), ("poor",)]
    assert memory.table.rows[0][1:3] == (1.0, 0.25)
    assert [section.name for section in document.sections[:2]] == ["results", "trade-offs"]


def test_lower_is_better_for_a_metric_that_counts_errors(wording: Wording) -> None:
    runs = [_run("base", "1100", metrics=[Cer()]), _run("worse", "1000", metrics=[Cer()])]
    figure = _compared(*runs)["quality-and-latency"]
    assert figure.series[0].labels == ("base",)
    wording(f"{figure.y.title}\n{figure.note}")


def test_a_run_without_a_number_or_of_other_data_is_no_candidate() -> None:
    base = _run("base", "1100")
    other_metric = _run("other", "1111", metrics=[Anls()])
    unmeasured = _run("unmeasured", "1111", memory=None)
    lost = _run("lost", "----")
    interrupted = _run("interrupted", "1111")
    twice = [claim(id="a", job_id="job"), claim(id=interrupted.claims[0].id, job_id="job")]
    halves = interrupted.facts.with_columns(
        claim_id=polars.when(polars.col("ordinal") < 2).then(polars.lit("a")).otherwise("claim_id")
    )
    split = replace(interrupted, facts=halves, claims=twice)
    figures = _compared(base, other_metric, unmeasured, lost, split)
    assert {row[0] for row in figures["quality-and-latency"].table.rows} == {"base", "unmeasured"}
    assert {row[0] for row in figures["quality-and-memory"].table.rows} == {"base", "interrupted"}
    assert not [name for name in _compared(base, lost) if name.startswith("quality-and")]


def test_a_run_under_another_load_is_no_candidate_by_its_latency() -> None:
    base, busy = _run("base", "1100"), _run("busy", "1111", latency_ms=10)
    busy = replace(busy, spec=busy.spec.model_copy(update={"scenario": ScenarioSpec(in_flight=8)}))
    assert {name for name in _compared(base, busy) if name.startswith("quality-and")} == {"quality-and-memory"}


def test_memory_of_accelerators_is_not_drawn_with_memory_of_a_process(wording: Wording) -> None:
    runs = [_run("cpu", "10"), _run("gpu", "11")]
    on_gpu = replace(runs[1], claims=[claim(resources={"accelerator_memory_used_bytes_peak": 2**30})])
    assert "quality-and-memory" not in _compared(runs[0], on_gpu)
    figure = _compared(on_gpu, replace(on_gpu, name="b", id="b"))["quality-and-memory"]
    wording(figure.x.title)


def test_wins_ties_and_losses_are_parts_of_one_bar() -> None:
    figure = _compared(_run("base", "1100"), _run("other", "1011"))["wins"]
    assert figure.categories == ("Exact match",)
    assert [(series.name, series.x) for series in figure.series] == [
        ("better", (2.0,)),
        ("same", (1.0,)),
        ("worse", (1.0,)),
    ]
    named = _compared(_run("base", "1100"), _run("b", "1011"), _run("c", "0000"))["wins"]
    assert named.categories == ("b · Exact match", "c · Exact match")


def test_of_many_rows_of_wins_the_first_are_drawn_and_the_note_says_so(wording: Wording) -> None:
    runs = [_run("base", "10"), *(_run(f"r{i:02}", "01") for i in range(26))]
    figures = _compared(*runs)
    assert len(figures["wins"].categories) == ranking.MAX_BARS
    wording(figures["wins"].note)
    assert figures["ranks"].kind == "interval"
    assert len(figures["latency"].series) == 8


def test_ranks_are_shares_of_resamples_by_run(wording: Wording) -> None:
    figure = _compared(_run("base", "110000"), _run("best", "111110"), _run("other", "000000"))["ranks"]
    assert figure.categories == ("best", "base", "other")
    assert figure.columns == ("1", "2", "3")
    assert figure.cells[0][0] is not None
    assert figure.cells[0][0] > 0.9
    assert figure.cell_labels[2][2] != ""
    wording(figure.note)


def test_ranks_of_a_pooled_metric_take_statistics_that_only_one_run_has() -> None:
    first = [fact(i, answer, "cat", images=[f"{i:064x}"]) for i, answer in enumerate(["cat", "cat", "dog"])]
    second = [fact(i, answer, "cat", images=[f"{i:064x}"]) for i, answer in enumerate(["cat", "eel", "eel"])]
    runs = [evidence(rows, metrics=[Labels()], name=name, id=name) for rows, name in ((first, "a"), (second, "b"))]
    figure = ranking.ranks(runs)
    assert figure is not None
    assert figure.categories == ("a", "b")


def test_runs_that_share_no_answers_have_no_ranks() -> None:
    elsewhere = evidence(
        [fact(i, "yes", "yes", key=f"x{i}") for i in range(3)], name="b", id="b", metrics=[ExactMatch()]
    )
    assert not {"ranks", "wins"} & set(_compared(_run("a", "110"), elsewhere))
    assert ranking.ranks([_run("a", "110"), _run("none", "111", metrics=())]) is None
    assert ranking.ranks([_run("a", "1"), _run("b", "0")]) is None


def test_figures_show_the_first_runs_and_tables_show_all(wording: Wording) -> None:
    runs = [_run(f"r{i}", "10" * 4) for i in range(10)]
    document = comparison_of("e", "demo", "DONE", runs)
    wording(section_of(document, "quality").lead)
    figures = figures_of(document)
    assert {len(figures[name].series) for name in ("latency", "ttft", "quality-by-doc-class")} == {8}
    assert len({row[1] for row in tables_of(document)["times"].rows}) == 10


def test_of_many_groups_only_the_weakest_are_drawn(wording: Wording) -> None:
    rows = [fact(i, "yes" if i else "no", "yes", **{"group.doc_class": f"c{i:02}"}) for i in range(45)]
    run = evidence(rows)
    asked = replace(run, spec=run.spec.model_copy(update={"group_by": ("doc_class",)}))
    figure = figures_of(document_of(asked))["quality-by-doc-class"]
    assert len(figure.categories) == MAX_DRAWN_GROUPS
    assert figure.categories[0] == "c00"
    wording(figure.note)


def test_a_group_column_with_an_odd_name_has_a_figure_with_a_plain_one() -> None:
    rows = [fact(i, "yes", "yes") for i in range(4)]
    run = evidence(rows)
    odd = run.facts.rename({"group.doc_class": "group.../Ärger\x01"})
    asked = replace(run, facts=odd, spec=run.spec.model_copy(update={"group_by": ("../Ärger\x01",)}))
    (name,) = (figure.name for figure in document_of(asked).figures if figure.name.startswith("quality-by-"))
    assert name.isascii()
    assert "/" not in name
