"""Find the wrong answers of a run with their kinds of mistake, and the columns that paired comparisons need."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import polars

from vlmhyperbench.analysis.comparison import PAIR_KEY, Measured
from vlmhyperbench.analysis.mistakes import kind_of_mistake, normalise
from vlmhyperbench.summaries.answers import ROW, answers_of
from vlmhyperbench.summaries.evidence import RunEvidence, ScoredMetric


def detail_of(run: RunEvidence) -> ScoredMetric:
    """Return the metric that measures the distance of an answer to its references.

    It is the first metric that is not a proportion, or else the primary one. The run has at least one metric.
    """
    return next((scored for scored in run.scored if not scored.description.proportion), run.scored[0])


def with_detail(run: RunEvidence, answers: polars.DataFrame) -> polars.DataFrame:
    """Add the values of `detail_of` to answers as the column `detail`."""
    measures = detail_of(run).measures
    values = measures.filter(polars.col("field").is_null()).select(*ROW, polars.col("value").alias("detail"))
    return answers.join(values, on=list(ROW), how="left", maintain_order="left")


def measured(run: RunEvidence, scored: ScoredMetric) -> Measured:
    """Return a metric with its values by sample, for paired comparisons."""
    frame = answers_of(run, scored)
    columns = [*PAIR_KEY, "cluster", "value", *(name for name in frame.columns if name.startswith("stat."))]
    return Measured(
        key=scored.key,
        label=scored.label,
        definition=scored.identity.definition,
        description=scored.description,
        combine=scored.metric.combine,
        frame=frame.select(columns),
    )


def wrong_answers(run: RunEvidence) -> polars.DataFrame:
    """Return the rows that are wrong by the primary metric, with the `kind` of each mistake.

    A model failure is a mistake, an infrastructure failure is not.
    """
    primary = run.primary
    if primary is None or primary.perfect is None:
        return polars.DataFrame(schema={"kind": polars.String})
    frame = answers_of(run, primary).filter(
        (polars.col("value").is_not_null() & (polars.col("value") != primary.perfect))
        | ((polars.col("status") == "error") & (polars.col("failure") == "model"))
    )
    expected = _expected_by_page(run.facts)
    columns = frame.select("status", "error_code", "finish_reason", "text", "references", "cluster", "key")
    kinds = [_kind(row, expected) for row in columns.iter_rows(named=True)]
    return frame.with_columns(polars.Series("kind", kinds, dtype=polars.String))


def _kind(row: Mapping[str, object], expected: Mapping[str, Mapping[str, set[str]]]) -> str:
    if row["status"] != "ok":
        return f"failed: {row['error_code'] or 'unknown'}"
    text, references = str(row["text"] or ""), row["references"]
    normalised = normalise(text)
    expecting = expected.get(str(row["cluster"]), {}).get(normalised, set())
    return kind_of_mistake(
        text,
        [str(reference) for reference in references] if isinstance(references, list) else [],
        finish_reason=str(row["finish_reason"] or ""),
        neighbours={normalised} if expecting - {str(row["key"])} else (),
    )


def _expected_by_page(facts: polars.DataFrame) -> dict[str, dict[str, set[str]]]:
    """Return page → normalised reference → samples, to recognise an answer to another question about the page."""
    pages: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for images, key, references in facts.select("images", "key", "references").iter_rows():
        for reference in references if images else ():
            pages["+".join(images)][normalise(reference)].add(key)
    return pages
