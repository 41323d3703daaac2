"""A report says how much the scores depend on the extractor, and on which answers extractors disagree."""

from __future__ import annotations

from dataclasses import replace

from tests.shared.reports.builders import document_of, evidence, fact, facts_frame, measures, metric_spec, run_spec
from tests.shared.reports.reading import limits_of, section_of, tables_of
from tests.support.wording import Wording
from vlmhyperbench.domain.specs import ExtractorSpec
from vlmhyperbench.reports.document import Estimate, Section
from vlmhyperbench.reports.sections.extraction import extraction, spread
from vlmhyperbench.summaries.evidence import OpenedMetric, RunEvidence, ScoredMetric, name_metrics
from vlmhyperbench.summaries.summarising import summarise_run
from vlmhyperbench_text_metrics.cer import Cer
from vlmhyperbench_text_metrics.exact_match import ExactMatch

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


def _section(run: RunEvidence) -> Section:
    section = extraction(summarise_run(run), run)
    assert section is not None
    return section


def test_the_scores_of_every_extractor_stand_side_by_side(wording: Wording) -> None:
    section = _section(_run())
    wording(section.lead)
    scores = tables_of(section)["extractors"]
    assert [(row[0], row[1]) for row in scores.rows] == [("text@1", 0), ("number@2", 1)]
    values = [row[2].value for row in scores.rows if isinstance(row[2], Estimate)]
    assert values == [0.2, 0.5]


def test_answers_on_which_they_disagree_are_listed_with_what_was_read() -> None:
    assert tables_of(_section(_run()))["extractors-disagree"].rows == (
        ("s1", '["5"]', "0.000: It is 5", "1.000: 5"),
        ("s3", '["5"]', "0.000: none", "unscored: no_number"),
    )


def test_extractors_that_agree_have_no_list(wording: Wording) -> None:
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
    section = _section(alike)
    assert len(section.blocks) == 1
    wording(section.lead)


def test_a_run_with_one_extractor_has_no_such_section() -> None:
    assert extraction(summarise_run(evidence()), evidence()) is None


def test_the_report_has_the_section_and_says_that_the_score_depends_on_it(wording: Wording) -> None:
    document = document_of(_run())
    assert section_of(document, "extraction").blocks
    wording(limits_of(document))


def test_a_primary_metric_that_other_extractors_lack_has_no_spread() -> None:
    summary = summarise_run(_run())
    assert spread(summary) == (0.2, 0.5)
    others = {label: scores[1:] for label, scores in summary.otherwise.items()}  # as a judge is left out of them
    assert spread(replace(summary, otherwise=others)) is None
