"""The lengths of prompts and answers in tokens, on which speed, memory and cost depend."""

from __future__ import annotations

import polars

from vlmhyperbench.analysis.figures import Axis, FigureSpec, histogram_figure
from vlmhyperbench.reports.sections.wording import listed
from vlmhyperbench.summaries.evidence import RunEvidence

_SHOWN = (
    ("prompt-tokens", "prompt_tokens", "Length of prompts", "prompt, with its images"),
    ("answer-tokens", "completion_tokens", "Length of answers", "answer"),
)
_SOURCES = {
    "usage": "counted by the engine",
    "tokenizer": "counted by a tokenizer",
    "estimated": "estimated",
}


def length_figures(run: RunEvidence) -> list[FigureSpec]:
    """Draw the lengths of answered requests; lengths that were not counted are left out."""
    answered = run.facts.filter(polars.col("status") == "ok")
    sources = [_SOURCES.get(source, source) for source in sorted(answered["token_source"].drop_nulls().unique())]
    how = f" Tokens: {listed(sources)}." if sources else ""
    figures = []
    for name, column, title, what in _SHOWN:
        lengths = [float(length) for length in answered[column].drop_nulls()]
        if not lengths:
            continue
        unknown = answered.height - len(lengths)
        missing = f" {unknown} of {answered.height} are unknown." if unknown else ""
        figures.append(
            histogram_figure(
                name,
                title,
                axis=Axis(title=what, unit="tokens"),
                series={run.name: lengths},
                is_whole=True,
                note=f"The last bar has all values above p99.5.{how}{missing}",
            )
        )
    return figures
