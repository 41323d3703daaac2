"""How the scores that an imported file reports differ from ours, sample by sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars

from vlmhyperbench.reports.document import Block, Column, Section, Table, write_number
from vlmhyperbench.reports.sections.wording import percent, plural
from vlmhyperbench.scoring.reported import is_reported
from vlmhyperbench.summaries.answers import ROW, answers_of
from vlmhyperbench.summaries.evidence import RunEvidence, ScoredMetric

MAX_ROWS = 24
SAME = 1e-6
"""Numbers that differ by no more were rounded, not measured otherwise."""
_CHARS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """A reported score beside one of our metrics, on the answers that both have a value for."""

    theirs: ScoredMetric
    ours: ScoredMetric
    frame: polars.DataFrame
    """Columns of `answers_of` by our metric, with the reported number as `reported`."""

    @property
    def apart(self) -> polars.DataFrame:
        """The answers on which they differ, the largest difference first."""
        difference = (polars.col("reported") - polars.col("value")).abs()
        apart = self.frame.with_columns(difference.alias("difference")).filter(polars.col("difference") > SAME)
        return apart.sort("difference", descending=True, maintain_order=True)


def reported_scores(run: RunEvidence) -> Section | None:
    """Lay every reported score beside the metric of ours that agrees with it most; None where none is reported."""
    pairings = [
        found for scored in run.scored if is_reported(scored.spec) and (found := _best(run, scored)) is not None
    ]
    if not pairings:
        return None
    blocks: list[Block] = [_summary(pairings), *(_differences(pairing) for pairing in pairings if pairing.apart.height)]
    first = pairings[0]
    lead = (
        f"The file reports {plural(len(pairings), 'score')} of these answers. By {first.theirs.spec.params['score']}, "
        f"{plural(first.apart.height, 'answer')} of {plural(first.frame.height, 'answer')} "
        f"({percent(first.apart.height / first.frame.height)}) got another number than by our {first.ours.label}."
    )
    return Section(name="reported", title="Scores that the file reports", lead=lead, blocks=tuple(blocks))


def _best(run: RunEvidence, theirs: ScoredMetric) -> Pairing | None:
    own = [scored for scored in run.scored if not is_reported(scored.spec)]
    pairings = [found for scored in own if (found := _pair(run, theirs, scored)).frame.height]
    return min(pairings, key=lambda pairing: pairing.apart.height / pairing.frame.height, default=None)


def _pair(run: RunEvidence, theirs: ScoredMetric, ours: ScoredMetric) -> Pairing:
    numbers = theirs.measures.filter(polars.col("field").is_null()).select(*ROW, polars.col("value").alias("reported"))
    frame = answers_of(run, ours).join(numbers, on=list(ROW), how="left", maintain_order="left")
    both = polars.col("value").is_not_null() & polars.col("reported").is_not_null()
    return Pairing(theirs=theirs, ours=ours, frame=frame.filter(both))


def _summary(pairings: Sequence[Pairing]) -> Table:
    return Table(
        name="reported",
        title="Theirs beside ours",
        columns=(
            Column(title="reported score", kind="code"),
            Column(title="our metric"),
            *(Column(title=title, kind="number") for title in ("answers", "theirs", "ours", "same", "higher", "lower")),
        ),
        rows=tuple(
            (
                str(pairing.theirs.spec.params["score"]),
                pairing.ours.label,
                pairing.frame.height,
                write_number(_mean(pairing.frame, "reported"), 4),
                write_number(_mean(pairing.frame, "value"), 4),
                pairing.frame.height - pairing.apart.height,
                pairing.apart.filter(polars.col("reported") > polars.col("value")).height,
                pairing.apart.filter(polars.col("reported") < polars.col("value")).height,
            )
            for pairing in pairings
        ),
        note=(
            "Means over the answers that have both numbers. A reported score stands beside the metric of ours that "
            "gives the most answers the same number; higher and lower say how many the file gives more or less."
        ),
    )


def _differences(pairing: Pairing) -> Table:
    apart = pairing.apart
    shown = apart.head(MAX_ROWS)
    return Table(
        name=f"reported-{pairing.theirs.key.replace(' ', '-')}",
        title=f"Where {pairing.theirs.spec.params['score']} differs from our {pairing.ours.label}",
        columns=(
            Column(title="sample"),
            Column(title="answer"),
            Column(title="references"),
            Column(title="theirs", kind="number"),
            Column(title="ours", kind="number"),
        ),
        rows=tuple(
            (
                row["key"],
                _cut(row["text"] or ""),
                _cut(" | ".join(row["references"] or ())),
                write_number(row["reported"], 4),
                write_number(row["value"], 4),
            )
            for row in shown.iter_rows(named=True)
        ),
        note=f"{plural(shown.height, 'answer')} of {plural(apart.height, 'answer')}, the largest difference first; "
        "samples.parquet holds them all.",
    )


def _mean(frame: polars.DataFrame, column: str) -> float | None:
    mean = frame[column].mean()
    return float(mean) if isinstance(mean, int | float) else None


def _cut(text: str) -> str:
    return text if len(text) <= _CHARS else f"{text[: _CHARS - 1]}…"
