"""Score the members of a pipeline, and combine their answers again without each of them; no model is asked."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import polars

from vlmhyperbench.domain.asking import pipeline_of
from vlmhyperbench.domain.judging import is_judge
from vlmhyperbench.domain.pipelines import (
    AskedModel,
    InnerMember,
    Key,
    PipelineTarget,
    StageSpec,
    asked_models,
    compared_stage,
    models_within,
    needed_by,
)
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.reports.bundles import PipelineRows
from vlmhyperbench.scoring.combining import Asked, Combiner, StageAnswer
from vlmhyperbench.scoring.metrics import open_answering, open_failing
from vlmhyperbench.scoring.scores import Row, score
from vlmhyperbench.summaries.members import AnsweringEvidence, EnsembleEvidence, MemberEvidence
from vlmhyperbench_sdk.aggregation import Aggregated
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.jsontext import canonical, parse_json, repair_json
from vlmhyperbench_sdk.protocols import Metric

_TOLD = ("ordinal", "status", "text", "error_code")
_ROW = ("ordinal", "status", "text", "error_code", "latency_ns", "is_reused")
_SCORED = ("ordinal", "status", "text", "failure", "error_code", "references", "metadata")


def ensemble_evidence(rows: PipelineRows, spec: RunSpec) -> EnsembleEvidence:
    """Return what a summary compares.

    Raises:
        NotFound, InvalidInput, Conflict, PluginFailure: a metric or an aggregation cannot be opened as it is pinned.
    """
    pipeline = pipeline_of(spec)
    combiner, stage = Combiner(pipeline), compared_stage(pipeline)
    answers = {ordinal: combiner.answers(sample) for ordinal, sample in sorted(rows.samples.items())}
    unscored = _why_unscored(spec)
    scorer = None if unscored else _Scorer.of(spec, rows.facts)
    numbers = {key: no for no, key in rows.keys.items()}
    members = [
        MemberEvidence(
            asked=asked,
            rows=rows.facts.filter(polars.col("phase") == numbers[asked.key]).select(_ROW),
            peak_bytes=rows.peak_bytes.get(asked.key),
        )
        for asked in asked_models(pipeline)
        if asked.key in numbers
    ]
    combined = {ordinal: stages[stage.id] for ordinal, stages in answers.items()}
    is_last = stage is pipeline.stages[-1]
    return EnsembleEvidence(
        stage=stage.id,
        members=tuple(member for member in members if member.rows.height),
        answering=tuple(_answering(pipeline, stage, combiner, rows, answers, scorer)),
        confidences=_confidences(combined),
        result=None if scorer is None or is_last else scorer.of_answers(combined),
        unscored=unscored,
    )


def _answering(
    pipeline: PipelineTarget,
    stage: StageSpec,
    combiner: Combiner,
    rows: PipelineRows,
    answers: Mapping[int, Mapping[str, StageAnswer]],
    scorer: _Scorer | None,
) -> Iterator[AnsweringEvidence]:
    """Yield the models and pipelines of a stage that have answers, and these as the stage combines them."""
    is_alone = stage.aggregation is not None and stage.aggregation.merger is None
    is_replayed = is_alone and len(stage.answering) > 1
    given = {ordinal: combiner.given(stage, rows.samples[ordinal], stages) for ordinal, stages in answers.items()}
    for member in stage.answering:
        own = {ordinal: names[member.name] for ordinal, names in given.items() if member.name in names}
        if isinstance(member, InnerMember):
            needed = list(models_within(pipeline, stage.path_of(member)))
            told, scores = _told(own), scorer.of_answers(own) if scorer is not None else None
        else:
            needed = [AskedModel(stage=stage, role="member", model=member)]
            facts = rows.facts.filter(
                polars.col("phase").is_in([no for no, key in rows.keys.items() if key in _keys(needed)])
            )
            # Of one that was not asked, the stages before it say whose failure that is.
            failures = {no: answer.failure for no, answer in own.items() if answer.value is None}
            failure = polars.col("ordinal").replace_strict(failures, default=None, return_dtype=polars.String)
            texts = {no: answer.value for no, answer in own.items() if answer.value is not None}
            text = polars.col("ordinal").replace_strict(texts, default=None, return_dtype=polars.String)
            facts = facts.with_columns(failure=failure, text=text)
            told, scores = facts.select(_TOLD), scorer.of_facts(facts) if scorer is not None else None
        if not told.height:
            continue
        keys = {
            ordinal: _key(member.name, given[ordinal], answers[ordinal][stage.id].aggregated if is_alone else None)
            for ordinal in own
        }
        without = (
            scorer.of_answers(_without(_keys(needed), rows.samples, combiner, stage.id))
            if scorer is not None and is_replayed
            else None
        )
        yield AnsweringEvidence(
            name=member.name,
            needs=_keys(each for asked in needed for each in (asked, *needed_by(pipeline, asked))),
            rows=told.with_columns(
                polars.Series("key", [keys.get(no) for no in told["ordinal"].to_list()], dtype=polars.String)
            ),
            scores=scores,
            without=without,
        )


def _keys(models: Iterable[AskedModel]) -> frozenset[Key]:
    return frozenset(asked.key for asked in models)


def _told(answers: Mapping[int, StageAnswer]) -> polars.DataFrame:
    """Return the answers of a pipeline as the rows of a model."""
    rows = [
        (no, "error", None, f"pipeline_{answer.status}") if answer.value is None else (no, "ok", answer.value, None)
        for no, answer in answers.items()
    ]
    texts = dict.fromkeys(_TOLD[1:], polars.String())
    return polars.DataFrame(rows, schema={"ordinal": polars.Int64(), **texts}, orient="row")


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


def _without(
    models: Collection[Key], samples: Mapping[int, Asked], combiner: Combiner, stage: str
) -> dict[int, StageAnswer]:
    """Return the answers that a stage gives without some models."""
    return {
        ordinal: combiner.answers(
            replace(sample, replies={key: reply for key, reply in sample.replies.items() if key not in models})
        )[stage]
        for ordinal, sample in samples.items()
    }


def _key(name: str, given: Mapping[str, StageAnswer], combined: Aggregated | None) -> str | None:
    """Return the normalised answer of a member: what a vote counted, or the one form of its JSON, or of its text.

    What merges with a model counts only where that gave no answer, so `combined` is None there: all samples of a stage
    must have keys of one kind.
    """
    text = given[name].value
    counted = combined.trace.get("keys") if combined is not None else None
    if text is None:
        return None
    if isinstance(counted, list) and len(counted) == len(given):
        key = counted[list(given).index(name)]
        return key if isinstance(key, str) else None
    found, repairs = repair_json(text)
    with suppress(InvalidInput):
        if "first_object" not in repairs:
            return canonical(parse_json(found, exact=True))
    return " ".join(text.split()).casefold()


def _confidences(answers: Mapping[int, StageAnswer]) -> polars.DataFrame:
    known = [
        (ordinal, answer.aggregated.confidence)
        for ordinal, answer in answers.items()
        if answer.value is not None and answer.aggregated is not None and answer.aggregated.confidence is not None
    ]
    return polars.DataFrame(
        {"ordinal": [ordinal for ordinal, _ in known], "confidence": [confidence for _, confidence in known]},
        schema=polars.Schema({"ordinal": polars.Int64(), "confidence": polars.Float64()}),
    )
