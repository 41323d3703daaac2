"""Facts and measures joined: one row per answer of a run."""

from __future__ import annotations

import polars

from vlmhyperbench.summaries.evidence import RunEvidence, ScoredMetric

ROW = ("phase", "ordinal")


def answers_of(run: RunEvidence, scored: ScoredMetric) -> polars.DataFrame:
    """Return the facts of a run with one metric's `value`, `outcome`, `reason` and statistics, without single fields.

    The column `cluster` names the document: the images of the sample, or its key where it has no images. A row without
    a measure has no value.
    """
    measures = scored.measures.filter(polars.col("field").is_null()).drop("field", "extractor", strict=False)
    cluster = polars.when(polars.col("images").list.len() > 0).then(polars.col("images").list.join("+"))
    return run.facts.with_columns(cluster.otherwise(polars.col("key")).alias("cluster")).join(
        measures, on=list(ROW), how="left", maintain_order="left"
    )
