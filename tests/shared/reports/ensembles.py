"""Builders of pipelines with the rows of their members, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.shared.reports.builders import evidence, fact, facts_frame, run_spec
from vlmhyperbench.domain.pipelines import (
    AggregationSpec,
    MemberSpec,
    PipelineTarget,
    StageSpec,
    asked_models,
)
from vlmhyperbench.domain.specs import EndpointTarget
from vlmhyperbench.facts.replies import samples_of
from vlmhyperbench.reports.bundles import PipelineRows
from vlmhyperbench.reports.ensembles import ensemble_evidence
from vlmhyperbench.scoring.combining import Combiner
from vlmhyperbench.summaries.ensemble_records import EnsembleSummary
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench.summaries.summarising import summarise_run
from vlmhyperbench_text_metrics.exact_match import ExactMatch

SAMPLES = 8
ANSWERS = {
    "good": ["yes"] * 6 + ["no"] * 2,
    "fair": ["yes"] * 4 + ["no"] * 4,
    "poor": ["yes"] * 2 + ["maybe"] * 4 + ["yes"] * 2,
}


def pipeline(aggregation: AggregationSpec | None, *names: str) -> PipelineTarget:
    members = tuple(
        MemberSpec(name=name, target=EndpointTarget(endpoint=f"http://{name}.example/v1", model_name=name))
        for name in names
    )
    return PipelineTarget(
        pipeline="readers", version="1", stages=(StageSpec(id="read", members=members, aggregation=aggregation),)
    )


VOTE = pipeline(AggregationSpec(class_path="vote"), *ANSWERS)


def rows_of(target: PipelineTarget, answers: dict[str, list[Any]], references: Sequence[str] = ()) -> PipelineRows:
    """Give each asked model a phase, from 2 on; its requests take 1, 2, … seconds. Each reference is yes by default."""
    asked = list(asked_models(target))
    keys = {no: model.key for no, model in enumerate(asked, 2)}
    rows = [
        fact(
            ordinal,
            text,
            references[ordinal] if references else "yes",
            phase=no,
            phase_kind="member",
            latency_ns=(no - 1) * 10**9,
        )
        for no, (_, _, name) in keys.items()
        for ordinal, text in enumerate(answers[name])
    ]
    facts = facts_frame(rows)
    peaks = {key: no * 10**9 for no, key in keys.items()}
    return PipelineRows(facts=facts, keys=keys, samples=samples_of(facts, target, keys), peak_bytes=peaks)


def run_of(
    target: PipelineTarget, answers: dict[str, list[Any]], *, metric: Any = None, references: Sequence[str] = ()
) -> RunEvidence:
    rows, used = rows_of(target, answers, references), metric or ExactMatch()
    spec = run_spec(metrics=(used,), target=target)
    combiner = Combiner(target)
    texts = {no: combiner.answers(sample)[target.stages[-1].id].value for no, sample in rows.samples.items()}
    facts = [
        fact(no, text, references[no] if references else "yes", latency_ns=3 * 10**9)
        for no, text in sorted(texts.items())
    ]
    return evidence(facts, metrics=(used,), spec=spec, ensemble=ensemble_evidence(rows, spec))


def found(run: RunEvidence) -> EnsembleSummary:
    ensemble = summarise_run(run).ensemble
    assert ensemble is not None
    return ensemble
