"""A report says how much the scores depend on how answers are read, and on which answers the readings disagree."""

from __future__ import annotations

from dataclasses import replace

from tests.shared.reports.builders import document_of, evidence, fact, facts_frame, measures, metric_spec, run_spec
from vlmhyperbench.domain.specs import ExtractorSpec
from vlmhyperbench.reports.document import Estimate, Table
from vlmhyperbench.reports.sections.extraction import extraction, spread
from vlmhyperbench.summaries.evidence import OpenedMetric, RunEvidence, ScoredMetric, name_metrics
from vlmhyperbench.summaries.summarising import summarise_run
from vlmhyperbench_text_metrics import Cer, ExactMatch

NUMBER = ExtractorSpec(name="number", version=2)
ANSWERS = ["5", "It is 5", "5 or 6", "none", "6", None]
"""Their reference is 5: as text one is right, as the last number two are, and one has none."""
ROWS = [fact(i, answer, "5", images=[f"{i:064x}"]) for i, answer in enumerate(ANSWERS)]


def _scored(extractor: ExtractorSpec) -> tuple[ScoredMetric, ...]:
    facts = facts_frame(ROWS)
    return name_metrics(
        [
            OpenedMetric(
                spec=metric_spec(metric),
                metric=metric,
                environment="1" * 64,
                extractor=extractor.label,
                measures=measures(metric, facts, extractor=extractor),
            )
            for metric in (ExactMatch(), Cer())
        ]
    )


def _run() -> RunEvidence:
    spec = run_spec(metrics=(ExactMatch(), Cer()), extractors=(ExtractorSpec(), NUMBER))
    other = {NUMBER.label: _scored(NUMBER)}
    return evidence(ROWS, metrics=(ExactMatch(), Cer()), spec=spec, scored_otherwise=other)


def test_the_scores_of_every_extractor_stand_side_by_side() -> None:
    section = extraction(summarise_run(_run()), _run())
    assert section is not None
    assert section.lead.startswith("2 extractors read the same answers; text@1 is the one that counts.")
    scores = section.blocks[0]
    assert isinstance(scores, Table)
    assert [(row[0], row[1]) for row in scores.rows] == [("text@1", 0), ("number@2", 1)]
    values = [row[2].value for row in scores.rows if isinstance(row[2], Estimate)]
    assert values == [0.2, 0.5]


def test_answers_on_which_they_disagree_are_listed_with_what_was_read() -> None:
    section = extraction(summarise_run(_run()), _run())
    assert section is not None
    assert "they disagree on 2 answers (33.3" in section.lead
    table = section.blocks[1]
    assert isinstance(table, Table)
    assert table.rows == (
        ("s1", '["5"]', "0.000: It is 5", "1.000: 5"),
        ("s3", '["5"]', "0.000: none", "unscored: no_number"),
    )


def test_extractors_that_agree_have_no_list() -> None:
    run = evidence([fact(0, "5", "5")], metrics=(ExactMatch(),), spec=run_spec(extractors=(ExtractorSpec(), NUMBER)))
    (scored,) = run.scored
    same = name_metrics(
        [
            OpenedMetric(
                spec=scored.spec, metric=scored.metric, environment="", extractor="number@2", measures=scored.measures
            )
        ]
    )
    alike = evidence([fact(0, "5", "5")], metrics=(ExactMatch(),), spec=run.spec, scored_otherwise={"number@2": same})
    section = extraction(summarise_run(alike), alike)
    assert section is not None
    assert len(section.blocks) == 1
    assert "they disagree on 0 answers" in section.lead


def test_a_run_with_one_extractor_has_no_such_chapter() -> None:
    assert extraction(summarise_run(evidence()), evidence()) is None


def test_the_report_has_the_chapter_and_says_that_the_score_depends_on_it() -> None:
    document = document_of(_run())
    assert "extraction" in [section.name for section in document.sections]
    points = document.sections[-1].blocks[0]
    assert "The score depends on how answers are read: Exact match from 0.200 to 0.500." in points.items  # type: ignore[union-attr]


def test_a_primary_metric_that_other_extractors_lack_has_no_spread() -> None:
    summary = summarise_run(_run())
    assert spread(summary) == (0.2, 0.5)
    others = {label: scores[1:] for label, scores in summary.otherwise.items()}  # as a judge is left out of them
    assert spread(replace(summary, otherwise=others)) is None
