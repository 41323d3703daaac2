"""Compare the scores that an imported file reports with those of our metrics, sample by sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars

from vlmhyperbench.reports.document import Block, Column, Section, Table, write_number
from vlmhyperbench.reports.sections.wording import cut_cell, percent, plural
from vlmhyperbench.scoring.reported import is_reported
from vlmhyperbench.summaries.answers import ROW, answers_of
from vlmhyperbench.summaries.evidence import RunEvidence, ScoredMetric

MAX_ROWS = 24
SAME = 1e-6
"""Maximum difference that counts as rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """A reported score and one of our metrics, on the answers for which both have a value."""

    reported: ScoredMetric
    own: ScoredMetric
    frame: polars.DataFrame
    """Columns of `answers_of` by our metric, with the reported number as `reported`."""

    @property
    def differing(self) -> polars.DataFrame:
        """The answers on which they differ, the largest difference first."""
        difference = (polars.col("reported") - polars.col("value")).abs()
        differing = self.frame.with_columns(difference.alias("difference")).filter(polars.col("difference") > SAME)
        return differing.sort("difference", descending=True, maintain_order=True)


def reported_scores(run: RunEvidence) -> Section | None:
    """Compare every reported score with that of our metrics which agrees best; None if the file reports none."""
    pairings = [
        pairing for scored in run.scored if is_reported(scored.spec) and (pairing := _best(run, scored)) is not None
    ]
    if not pairings:
        return None
    blocks: list[Block] = [
        _summary(pairings),
        *(_differences(pairing) for pairing in pairings if pairing.differing.height),
    ]
    first = pairings[0]
    differing = f"{plural(first.differing.height, 'answer')} of {plural(first.frame.height, 'answer')}"
    lead = (
        f"The file reports {plural(len(pairings), 'score')} of these answers. "
        f"By {first.reported.spec.params['score']}, {differing} "
        f"({percent(first.differing.height / first.frame.height)}) got another number than by our {first.own.label}."
    )
    return Section(name="reported", title="Scores that the file reports", lead=lead, blocks=tuple(blocks))


def _best(run: RunEvidence, reported: ScoredMetric) -> Pairing | None:
    own = [scored for scored in run.scored if not is_reported(scored.spec)]
    pairings = [pairing for scored in own if (pairing := _pair(run, reported, scored)).frame.height]
    return min(pairings, key=lambda pairing: pairing.differing.height / pairing.frame.height, default=None)


def _pair(run: RunEvidence, reported: ScoredMetric, own: ScoredMetric) -> Pairing:
    whole = reported.measures.filter(polars.col("field").is_null())
    numbers = whole.select(*ROW, polars.col("value").alias("reported"))
    frame = answers_of(run, own).join(numbers, on=list(ROW), how="left", maintain_order="left")
    both = polars.col("value").is_not_null() & polars.col("reported").is_not_null()
    return Pairing(reported=reported, own=own, frame=frame.filter(both))


def _summary(pairings: Sequence[Pairing]) -> Table:
    return Table(
        name="reported",
        title="Reported scores and our metrics",
        columns=(
            Column(title="reported score", kind="code"),
            Column(title="our metric"),
            *(
                Column(title=title, kind="number")
                for title in ("answers", "reported", "ours", "same", "higher", "lower")
            ),
        ),
        rows=tuple(
            (
                str(pairing.reported.spec.params["score"]),
                pairing.own.label,
                pairing.frame.height,
                write_number(_mean(pairing.frame, "reported"), 4),
                write_number(_mean(pairing.frame, "value"), 4),
                pairing.frame.height - pairing.differing.height,
                pairing.differing.filter(polars.col("reported") > polars.col("value")).height,
                pairing.differing.filter(polars.col("reported") < polars.col("value")).height,
            )
            for pairing in pairings
        ),
        note=(
            "Means are over the answers that have both numbers. A reported score is compared with that of our metrics "
            "which gives the largest number of answers the same value. Higher and lower count the answers to which the "
            "file gives a higher or lower value."
        ),
    )


def _differences(pairing: Pairing) -> Table:
    differing = pairing.differing
    shown = differing.head(MAX_ROWS)
    return Table(
        name=f"reported-{pairing.reported.key.replace(' ', '-')}",
        title=f"Where {pairing.reported.spec.params['score']} differs from our {pairing.own.label}",
        columns=(
            Column(title="sample"),
            Column(title="answer"),
            Column(title="references"),
            Column(title="reported", kind="number"),
            Column(title="ours", kind="number"),
        ),
        rows=tuple(
            (
                row["key"],
                cut_cell(row["text"] or ""),
                cut_cell(" | ".join(row["references"] or ())),
                write_number(row["reported"], 4),
                write_number(row["value"], 4),
            )
            for row in shown.iter_rows(named=True)
        ),
        note=f"{shown.height} of {plural(differing.height, 'answer')}, the largest difference first; samples.parquet "
        "holds all of them.",
    )


def _mean(frame: polars.DataFrame, column: str) -> float | None:
    mean = frame[column].mean()
    return float(mean) if isinstance(mean, int | float) else None
