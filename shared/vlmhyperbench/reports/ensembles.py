"""Score the members of a pipeline, and combine their answers again without each of them; no model is asked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import polars

from vlmhyperbench.domain.asking import pipeline_of
from vlmhyperbench.domain.judging import is_judge
from vlmhyperbench.domain.pipelines import AskedModel, asked_models
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.reports.bundles import PipelineRows
from vlmhyperbench.scoring.combining import Asked, Combiner, StageAnswer
from vlmhyperbench.scoring.metrics import open_answering, open_failing
from vlmhyperbench.scoring.scores import Row, score
from vlmhyperbench.summaries.members import EnsembleEvidence, MemberEvidence
from vlmhyperbench_sdk.protocols import Metric

_ROW = ("ordinal", "status", "text", "error_code", "latency_ns", "is_reused")
_SCORED = ("ordinal", "status", "text", "failure", "error_code", "references", "metadata")


def ensemble_evidence(rows: PipelineRows, spec: RunSpec) -> EnsembleEvidence:
    """Return what a summary compares.

    Raises:
        NotFound, InvalidInput, Conflict, PluginFailure: a metric or an aggregation cannot be opened as it is pinned.
    """
    pipeline = pipeline_of(spec)
    last, combiner = pipeline.stages[-1], Combiner(pipeline)
    answers = {ordinal: combiner.answers(sample)[last.id] for ordinal, sample in sorted(rows.samples.items())}
    unscored = _why_unscored(spec)
    scorer = None if unscored else _Scorer.of(spec, rows.facts)
    is_replayed = last.aggregation is not None and last.aggregation.merger is None
    members = []
    for asked in asked_models(pipeline):
        numbers = [no for no, key in rows.keys.items() if key == asked.key]
        own = rows.facts.filter(polars.col("phase").is_in(numbers))
        is_last = asked.stage.id == last.id and asked.role == "member" and bool(numbers)
        keys = _keys(asked, rows.samples, answers) if is_last else {}
        members.append(
            MemberEvidence(
                asked=asked,
                rows=own.select(_ROW).with_columns(
                    polars.Series("key", [keys.get(no) for no in own["ordinal"].to_list()], dtype=polars.String)
                ),
                scores=scorer.of_facts(own) if scorer is not None and is_last else None,
                without=scorer.of_answers(_without(asked, rows.samples, combiner))
                if scorer is not None and is_last and is_replayed and len(last.members) > 1
                else None,
                peak_bytes=rows.peak_bytes.get(asked.key),
            )
        )
    return EnsembleEvidence(
        members=tuple(member for member in members if member.rows.height),
        confidences=_confidences(answers),
        unscored=unscored,
    )


def _why_unscored(spec: RunSpec) -> str:
    if not spec.metrics:
        return "The run has no metric."
    first = spec.metrics[0]
    if is_judge(first):
        return f"The first metric, {first.name}, is a judge, and judges are not asked about members."
    if first.environment is not None:
        return f"The first metric, {first.name}, has an environment of its own, and members are scored without one."
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scorer:
    """Scores answers by the first metric and the first extractor, as SCORE scores those of the run."""

    spec: RunSpec
    metric: Metric
    failing: Metric
    samples: Mapping[int, tuple[Sequence[str], str | None]]
    """Ordinal → references and metadata of its sample."""

    @classmethod
    def of(cls, spec: RunSpec, facts: polars.DataFrame) -> _Scorer:
        first = spec.metrics[0]
        known = facts.select("ordinal", "references", "metadata").unique("ordinal").iter_rows()
        return cls(
            spec=spec,
            metric=open_answering(first, on_invalid=spec.on_invalid),
            failing=open_failing(first),
            samples={ordinal: (references or (), metadata) for ordinal, references, metadata in known},
        )

    def of_facts(self, facts: polars.DataFrame) -> polars.DataFrame:
        """Return `ordinal, value` and statistics of a member's rows."""
        given = [
            (ordinal, Row(status=status, text=text, failure=failure, error_code=error_code))
            for ordinal, status, text, failure, error_code in facts.select(_SCORED[:5]).iter_rows()
        ]
        return self._scored(given).drop("text")

    def of_answers(self, answers: Mapping[int, StageAnswer]) -> polars.DataFrame:
        """Return `ordinal, text, value` and statistics of combined answers."""
        return self._scored(
            (
                ordinal,
                Row(status="ok", text=answer.value)
                if answer.value is not None
                else Row(status="error", failure=answer.failure, error_code=f"pipeline_{answer.status}"),
            )
            for ordinal, answer in answers.items()
        )

    def _scored(self, given: Iterable[tuple[int, Row]]) -> polars.DataFrame:
        rows = [
            (ordinal, replace(row, references=tuple(references), metadata=json.loads(metadata or "{}")))
            for ordinal, row in given
            for references, metadata in (self.samples.get(ordinal, ((), None)),)
        ]
        scores = score(
            self.metric,
            [row for _, row in rows],
            failing=self.failing,
            extractor=self.spec.extractors[0],
            on_model_failure=self.spec.on_model_failure,
            on_invalid=self.spec.on_invalid,
        )
        measures = [scored.measure for scored in scores]
        names = sorted({name for measure in measures for name in measure.statistics})
        return polars.DataFrame(
            [
                polars.Series("ordinal", [ordinal for ordinal, _ in rows], dtype=polars.Int64),
                polars.Series("text", [row.text for _, row in rows], dtype=polars.String),
                polars.Series("value", [measure.value for measure in measures], dtype=polars.Float64),
                *(
                    polars.Series(f"stat.{name}", [measure.statistics.get(name, 0.0) for measure in measures])
                    for name in names
                ),
            ]
        )


def _without(asked: AskedModel, samples: Mapping[int, Asked], combiner: Combiner) -> dict[int, StageAnswer]:
    """Return the answers that the pipeline gives without a member of its last stage."""
    return {
        ordinal: combiner.answers(
            replace(sample, replies={key: reply for key, reply in sample.replies.items() if key != asked.key})
        )[asked.stage.id]
        for ordinal, sample in samples.items()
    }


def _keys(asked: AskedModel, samples: Mapping[int, Asked], answers: Mapping[int, StageAnswer]) -> dict[int, str | None]:
    """Return the normalised answers of a member: what the vote counted, else the text without needless spaces."""
    found: dict[int, str | None] = {}
    for ordinal, sample in samples.items():
        present = [
            name
            for name in (member.name for member in asked.stage.members)
            if (asked.stage.id, "member", name) in sample.replies
        ]
        reply = sample.replies.get(asked.key)
        aggregated = answers[ordinal].aggregated
        counted = aggregated.trace.get("keys") if aggregated is not None else None
        if reply is None or reply.text is None:
            found[ordinal] = None
        elif isinstance(counted, list) and len(counted) == len(present):
            key = counted[present.index(asked.model.name)]
            found[ordinal] = key if isinstance(key, str) else None
        else:
            found[ordinal] = " ".join(reply.text.split()).casefold()
    return found


def _confidences(answers: Mapping[int, StageAnswer]) -> polars.DataFrame:
    known = [
        (ordinal, answer.aggregated.confidence)
        for ordinal, answer in answers.items()
        if answer.aggregated is not None and answer.aggregated.confidence is not None
    ]
    return polars.DataFrame(
        {"ordinal": [ordinal for ordinal, _ in known], "confidence": [confidence for _, confidence in known]},
        schema=polars.Schema({"ordinal": polars.Int64(), "confidence": polars.Float64()}),
    )
