"""Which answers of a run are wrong, and how; and what paired comparisons need of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import polars

from vlmhyperbench.analysis.comparison import PAIR_KEY, Measured
from vlmhyperbench.analysis.mistakes import kind_of_mistake, normalise
from vlmhyperbench.summaries.answers import ROW, answers_of
from vlmhyperbench.summaries.evidence import RunEvidence, ScoredMetric


def detail_of(run: RunEvidence) -> ScoredMetric:
    """Return the metric that says how far an answer is from right: the first that is no share, or the primary.

    The run has a metric: cases are chosen by it.
    """
    return next((scored for scored in run.scored if not scored.description.proportion), run.scored[0])


def with_detail(run: RunEvidence, answers: polars.DataFrame) -> polars.DataFrame:
    """Add the values of `detail_of` to answers as the column `detail`."""
    measures = detail_of(run).measures
    values = measures.filter(polars.col("field").is_null()).select(*ROW, polars.col("value").alias("detail"))
    return answers.join(values, on=list(ROW), how="left", maintain_order="left")


def measured(run: RunEvidence, scored: ScoredMetric) -> Measured:
    """Return what paired comparisons need of a metric."""
    frame = answers_of(run, scored)
    kept = [*PAIR_KEY, "cluster", "value", *(name for name in frame.columns if name.startswith("stat."))]
    return Measured(
        key=scored.key,
        label=scored.label,
        definition=scored.identity.definition,
        description=scored.description,
        combine=scored.metric.combine,
        frame=frame.select(kept),
    )


def wrong_answers(run: RunEvidence) -> polars.DataFrame:
    """Return the rows that are not right by the primary metric, with the `kind` of each mistake.

    A failure of the model is a mistake too; what the infrastructure failed is none.
    """
    primary = run.primary
    if primary is None or primary.perfect is None:
        return polars.DataFrame(schema={"kind": polars.String})
    frame = answers_of(run, primary).filter(
        (polars.col("value").is_not_null() & (polars.col("value") != primary.perfect))
        | ((polars.col("status") == "error") & (polars.col("failure") == "model"))
    )
    asked = _asked_by_page(run.facts)
    columns = frame.select("status", "error_code", "finish_reason", "text", "references", "cluster", "key")
    kinds = [_kind(row, asked) for row in columns.iter_rows(named=True)]
    return frame.with_columns(polars.Series("kind", kinds, dtype=polars.String))


def _kind(row: Mapping[str, object], asked: Mapping[str, Mapping[str, set[str]]]) -> str:
    if row["status"] != "ok":
        return f"failed: {row['error_code'] or 'unknown'}"
    text, references = str(row["text"] or ""), row["references"]
    said = normalise(text)
    askers = asked.get(str(row["cluster"]), {}).get(said, set())
    return kind_of_mistake(
        text,
        [str(reference) for reference in references] if isinstance(references, list) else [],
        finish_reason=str(row["finish_reason"] or ""),
        neighbours={said} if askers - {str(row["key"])} else (),
    )


def _asked_by_page(facts: polars.DataFrame) -> dict[str, dict[str, set[str]]]:
    """Page → normalised reference → samples, so that an answer to another question is recognised."""
    pages: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for images, key, references in facts.select("images", "key", "references").iter_rows():
        for reference in references if images else ():
            pages["+".join(images)][normalise(reference)].add(key)
    return pages
