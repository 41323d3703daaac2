"""Scores of a run: every metric over all answers, by groups, by pairs of groups and by fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import polars

from vlmhyperbench.analysis.quality import aggregates_of
from vlmhyperbench.analysis.results import Aggregate
from vlmhyperbench.domain.aggregators import AGGREGATORS
from vlmhyperbench.summaries.answers import ROW, answers_of
from vlmhyperbench.summaries.evidence import GROUP, RunEvidence, ScoredMetric
from vlmhyperbench.summaries.scores import NO_GROUP, Crossing, Score

_BY_TYPE = AGGREGATORS["by_doc_type"]
_BY_QUESTION = AGGREGATORS["by_doc_question"]


def overall(run: RunEvidence, metrics: Sequence[ScoredMetric]) -> tuple[Score, ...]:
    """Aggregate metrics over all answers, in the task's order."""
    return scores_by(run, metrics, ())


def by_column(run: RunEvidence) -> dict[str, tuple[Score, ...]]:
    """Aggregate every metric by each group column that is shown, and by the usual column of tables."""
    usual = [column for column in _BY_TYPE if GROUP + column in run.facts.columns]
    return {column: scores_by(run, run.scored, (column,)) for column in dict.fromkeys((*run.groups, *usual))}


def crossings(run: RunEvidence) -> tuple[Crossing, ...]:
    """Aggregate every metric by the first two columns that are shown, and by the usual two columns of tables."""
    usual = [_BY_QUESTION] if all(GROUP + column in run.facts.columns for column in _BY_QUESTION) else []
    wanted = dict.fromkeys([*([run.groups[:2]] if len(run.groups) > 1 else []), *usual])
    return tuple(
        Crossing(columns=(first, second), scores=scores_by(run, run.scored, (first, second)))
        for first, second in wanted
    )


def by_field(run: RunEvidence) -> tuple[Score, ...]:
    """Aggregate the measures of single fields, by field."""
    return tuple(score for scored in run.scored for score in _fields(run, scored))


def scores_by(run: RunEvidence, metrics: Sequence[ScoredMetric], columns: Sequence[str]) -> tuple[Score, ...]:
    """Aggregate metrics for each combination of group columns; without columns, over all answers."""
    groups = [GROUP + column for column in columns]
    return tuple(
        _score(scored, group, aggregate)
        for scored in metrics
        for group, aggregate in aggregates_of(answers_of(run, scored), scored.metric, group_by=groups).items()
    )


def _fields(run: RunEvidence, scored: ScoredMetric) -> list[Score]:
    measures = scored.measures.filter(polars.col("field").is_not_null())
    if not measures.height:
        return []
    documents = answers_of(run, scored).select(*ROW, "cluster")
    rows = measures.join(documents, on=list(ROW))
    by_field = aggregates_of(rows, scored.metric, group_by=AGGREGATORS["by_field"])
    return [_score(scored, group, aggregate) for group, aggregate in by_field.items()]


def _score(scored: ScoredMetric, group: tuple[object, ...], aggregate: Aggregate) -> Score:
    return Score(
        key=scored.key,
        metric=scored.spec.name,
        profile=scored.spec.profile,
        version=scored.spec.version,
        environment=scored.environment,
        evaluation_id=scored.evaluation_id,
        group=tuple(NO_GROUP if value is None else str(value) for value in group),
        **{field.name: getattr(aggregate, field.name) for field in fields(Aggregate)},
    )
