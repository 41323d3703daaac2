"""The section on mistakes of a run."""

from __future__ import annotations

import polars

from vlmhyperbench.analysis.figures import Axis, bars_figure
from vlmhyperbench.reports.document import Section, write_number
from vlmhyperbench.reports.sections import cases
from vlmhyperbench.reports.sections.clusters import cluster_table
from vlmhyperbench.reports.sections.wording import plural
from vlmhyperbench.summaries.evidence import RunEvidence


def mistakes_section(run: RunEvidence, wrong: polars.DataFrame, kinds: dict[str, int]) -> Section:
    """Return the section: kinds of mistakes, the largest clusters, cases.

    `wrong` is what `wrong_answers` returns, `kinds` what `mistake_counts` makes of it.
    """
    if not kinds:
        primary = run.primary
        lead = "No answer was scored." if primary is None else "No answer was wrong."
        if primary is not None and primary.perfect is None:
            lead = f"The value of {primary.label} for a right answer is not defined."
        return Section(name="mistakes-section", title="Mistakes", lead=lead, blocks=())
    figure = bars_figure(
        "kinds-of-mistakes",
        "Kinds of mistakes",
        axis=Axis(title="wrong answers"),
        groups="kind",
        series={run.name: kinds},
        note=(
            "A wrong answer has the first kind that fits. 'Another answer of the same page' is the expected answer to "
            "another question about the same images."
        ),
    )
    clusters = cluster_table(run, wrong)
    return Section(
        name="mistakes-section",
        title="Mistakes",
        lead=f"{plural(wrong.height, 'answer is', 'answers are')} wrong, of {write_number(run.facts.height, 0)}.",
        blocks=(figure, *([clusters] if clusters else []), cases.mistakes(run, wrong)),
    )
