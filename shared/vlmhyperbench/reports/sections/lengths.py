"""How long prompts and answers are, in tokens: what speed, memory and cost hang on."""

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
    "usage": "the engine said them",
    "tokenizer": "a tokenizer counted them",
    "estimated": "they are estimated",
}


def length_figures(run: RunEvidence) -> list[FigureSpec]:
    """Draw the lengths of answered requests; what nobody counted is left out."""
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
                note=f"Beyond p99.5 everything is in the last bar.{how}{missing}",
            )
        )
    return figures
