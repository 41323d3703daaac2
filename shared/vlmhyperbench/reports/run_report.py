"""Build the report of one run: a pure function of its summary and its evidence."""

from __future__ import annotations

from vlmhyperbench.reports.document import Document, Section
from vlmhyperbench.reports.sections import cases
from vlmhyperbench.reports.sections.answers import wrong_answers
from vlmhyperbench.reports.sections.ensemble import ensemble_section
from vlmhyperbench.reports.sections.errors import errors_section
from vlmhyperbench.reports.sections.extraction import extraction
from vlmhyperbench.reports.sections.groups import groups_section
from vlmhyperbench.reports.sections.judging import judges
from vlmhyperbench.reports.sections.limitations import limitations
from vlmhyperbench.reports.sections.mistakes import mistakes_section
from vlmhyperbench.reports.sections.provenance import configuration, provenance
from vlmhyperbench.reports.sections.reported import reported_scores
from vlmhyperbench.reports.sections.results import results_section, tiles_of
from vlmhyperbench.reports.sections.sample_table import samples_section
from vlmhyperbench.reports.sections.speed import run_speed
from vlmhyperbench.reports.sections.stopping import stop_section
from vlmhyperbench.reports.sections.verdict import run_verdict
from vlmhyperbench.reports.sections.wording import path_of, tone_of
from vlmhyperbench.summaries.codec import to_object
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench.summaries.headline import headline_row, target_of
from vlmhyperbench.summaries.summary import RunSummary


def run_document(summary: RunSummary, run: RunEvidence) -> Document:
    """Return the report of a run.

    Args:
        summary: its numbers.
        run: its evidence, for the blocks that show single samples and requests.
    """
    wrong = wrong_answers(run)
    kinds = cases.mistake_counts(wrong)
    sections: tuple[Section | None, ...] = (
        results_section(summary),
        stop_section(summary),
        ensemble_section(summary),
        groups_section(summary, run),
        judges(run),
        extraction(summary, run),
        reported_scores(run),
        mistakes_section(run, wrong, kinds),
        errors_section(summary),
        samples_section([run], wrong=wrong),
        run_speed(summary, run),
        configuration(summary, run),
        provenance(summary),
        limitations([summary]),
    )
    spec = summary.spec
    return Document(
        scope="run",
        id=summary.id,
        title=summary.name,
        subtitle=(
            f"{target_of(spec)} through {path_of(spec)}, on {spec.task} with {spec.dataset.name} {spec.dataset.version}"
        ),
        state=summary.state.lower(),
        tone=tone_of(summary.state),
        finished_at=summary.finished_at or None,
        verdict=run_verdict(summary, kinds),
        tiles=tiles_of(summary),
        sections=tuple(section for section in sections if section is not None),
        headline=(headline_row(summary),),
        runs={summary.id: to_object(summary)},
    )
