"""What a pipeline of several models came to, against its members: computed once from their rows, and stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars

from vlmhyperbench.analysis import stats
from vlmhyperbench.analysis.aggregation import STATISTIC
from vlmhyperbench.analysis.agreement import nominal_alpha
from vlmhyperbench.analysis.calibration import Calibration, calibration
from vlmhyperbench.analysis.distributions import nearest_rank
from vlmhyperbench.analysis.ensemble_costs import Bar, Costs, StepTimes, critical_path, waterfall
from vlmhyperbench.analysis.ensembles import Answers, Ensemble, Uplift, oracles, uplift
from vlmhyperbench.analysis.member_values import member_values
from vlmhyperbench.analysis.stats import FloatArray
from vlmhyperbench.analysis.worth import verdict
from vlmhyperbench.domain.asking import pipeline_of
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.pipelines import PipelineTarget, needed_stages
from vlmhyperbench.domain.units import NS_PER_S
from vlmhyperbench.summaries.answers import answers_of
from vlmhyperbench.summaries.ensemble_records import EnsembleSummary, MemberCost
from vlmhyperbench.summaries.evidence import RunEvidence, ScoredMetric
from vlmhyperbench.summaries.members import EnsembleEvidence, MemberEvidence


def ensemble_of(run: RunEvidence) -> EnsembleSummary | None:
    """Compare a pipeline with its members; None where the run's target is no pipeline."""
    known = run.ensemble
    if known is None:
        return None
    pipeline, primary = pipeline_of(run.spec), run.primary
    ordinals = run.facts.select("ordinal")
    steps, untimed = _timed([_times(pipeline, member, ordinals) for member in known.members])
    path = sorted(critical_path(steps).tolist()) if steps else []
    plain = EnsembleSummary(
        pipeline=pipeline.pipeline,
        stage=known.stage,
        is_last=known.stage == pipeline.stages[-1].id,
        metric=primary.label if primary is not None else "",
        unscored=known.unscored,
        asked=tuple(map(_cost, known.members)),
        bars=waterfall(steps),
        latency_p50_s=nearest_rank(path, 50),
        latency_p90_s=nearest_rank(path, 90),
        untimed=untimed,
    )
    answering = known.answering
    if len(answering) < 2:
        return plain
    keys = [ordinals.join(each.rows, on="ordinal", how="left", maintain_order="left")["key"] for each in answering]
    plain = replace(plain, agreement=nominal_alpha([column.to_list() for column in keys]))
    if primary is None or any(each.scores is None for each in answering):
        return plain
    return _compared(plain, run, primary, known)


def _compared(
    plain: EnsembleSummary, run: RunEvidence, primary: ScoredMetric, known: EnsembleEvidence
) -> EnsembleSummary:
    """Add what the scores of the members show, unless neither a higher nor a lower one is better."""
    direction = primary.description.direction
    if direction is None:
        return plain
    members = known.answering
    rows = answers_of(run, primary)
    if known.result is not None:
        rows = rows.select("ordinal", "cluster").join(known.result, on="ordinal", how="left", maintain_order="left")
    scores = [member.scores for member in members if member.scores is not None]
    without = [member.without for member in members if member.without is not None]
    names = sorted(
        {name for frame in (rows, *scores, *without) for name in frame.columns if name.startswith(STATISTIC)}
    )
    is_pooled = primary.description.aggregation == "pooled" and bool(names)
    statistics = names if is_pooled else []
    texts = [member.rows.select("ordinal", "text") for member in members]
    ensemble = Ensemble(
        result=_answers("result", rows, rows, statistics),
        members=tuple(
            _answers(member.name, rows, score.join(text, on="ordinal", how="left"), statistics)
            for member, score, text in zip(members, scores, texts, strict=True)
        ),
        clusters=rows["cluster"].to_list(),
        estimator=stats.pooled(primary.metric.combine, [name.removeprefix(STATISTIC) for name in names])
        if is_pooled
        else stats.mean_of,
        direction=direction,
    )
    gained = uplift(ensemble)
    revoted = {
        member.name: _answers(member.name, rows, member.without, statistics)
        for member in members
        if member.without is not None
    }
    costs = None if gained is None else _costs(plain, known, gained, pipeline_of(run.spec))
    return replace(
        plain,
        calibration=_calibration(rows, known.confidences, primary.perfect) if primary.perfect is not None else None,
        uplift=gained,
        oracles=oracles(ensemble),
        values=member_values(ensemble, revoted),
        costs=costs,
        verdict=verdict(gained, costs, who=_who(plain)) if gained is not None and costs is not None else None,
    )


def _answers(name: str, rows: polars.DataFrame, scores: polars.DataFrame, statistics: Sequence[str]) -> Answers:
    """Return answers in the order of the run's rows; without statistics, the metric is a mean."""
    absent = [polars.lit(0.0).alias(column) for column in statistics if column not in scores.columns]
    own = scores.with_columns(absent).select("ordinal", "text", "value", *statistics)
    joined = rows.select("ordinal").join(own, on="ordinal", how="left", maintain_order="left")
    values = joined["value"].cast(polars.Float64).fill_null(np.nan).to_numpy()
    columns = [joined[column].fill_null(0.0).to_numpy() for column in statistics] or [values, np.ones(len(values))]
    return Answers(
        name=name,
        values=values,
        statistics=np.column_stack(columns).astype(np.float64),
        texts=joined["text"].to_list(),
    )


def _calibration(rows: polars.DataFrame, confidences: polars.DataFrame, perfect: float) -> Calibration | None:
    """Describe the confidences of answers that have a value; None where nothing was voted."""
    voted = rows.join(confidences, on="ordinal", how="inner", maintain_order="left").filter(
        polars.col("value").is_not_null()
    )
    return calibration(
        voted["confidence"].cast(polars.Float64).fill_null(np.nan).to_numpy(),
        (voted["value"] == perfect).to_numpy(),
        voted["cluster"].to_list(),
    )


def _timed(steps: Sequence[StepTimes]) -> tuple[list[StepTimes], int]:
    """Return the times of the samples in which the time of every asked model is known, and how many are left out."""
    is_known = ~np.isnan([step.seconds for step in steps]).any(axis=0)
    return [replace(step, seconds=step.seconds[is_known]) for step in steps], int((~is_known).sum())


def _times(pipeline: PipelineTarget, member: MemberEvidence, ordinals: polars.DataFrame) -> StepTimes:
    """Return the time of each sample: 0 where the model was not asked, NaN where it was and its time is unknown."""
    is_member = member.asked.role == "member"
    asked = member.rows.with_columns(polars.col("latency_ns").cast(polars.Float64).fill_null(np.nan))
    joined = ordinals.join(asked, on="ordinal", how="left", maintain_order="left")
    seconds: FloatArray = joined["latency_ns"].fill_null(0.0).to_numpy() / NS_PER_S
    return StepTimes(
        stage=member.asked.stage.id,
        model=member.asked.model.name,
        seconds=seconds,
        after=tuple(sorted(needed_stages(pipeline, member.asked.stage, with_inner=not is_member))),
        merges=not is_member,
    )


def _cost(member: MemberEvidence) -> MemberCost:
    times = member.rows["latency_ns"].drop_nulls().to_list()
    return MemberCost(
        stage=member.asked.stage.id,
        role=member.asked.role,
        model=member.asked.model.name,
        answers=member.rows.height,
        failed=member.rows.filter(polars.col("status") != "ok").height,
        reused=int(member.rows["is_reused"].sum()),
        seconds=sum(times) / len(times) / NS_PER_S if times else None,
        peak_bytes=member.peak_bytes,
    )


def _who(plain: EnsembleSummary) -> str:
    """Return what is compared with its best member."""
    return "The ensemble" if plain.is_last else f"The stage {plain.stage}, with what it builds on,"


def _costs(plain: EnsembleSummary, known: EnsembleEvidence, gained: Uplift, pipeline: PipelineTarget) -> Costs:
    """Compare the models that the stage needs with those that its best member needs: itself, and what it builds on."""
    best = next(each for each in known.answering if each.name == gained.best)
    wanted = {known.stage, *needed_stages(pipeline, pipeline.stage(known.stage), with_inner=True)}
    asked = zip(known.members, plain.bars, strict=True)
    both = [(member, bar) for member, bar in asked if member.asked.stage.id in wanted]
    needed = [(member, bar) for member, bar in both if member.asked.key in best.needs]
    return Costs(
        seconds=_seconds(both),
        best_seconds=_seconds(needed),
        bytes=_bytes([member for member, _ in both]),
        best_bytes=_bytes([member for member, _ in needed]),
        uplift=gained.uplift,
    )


def _seconds(steps: Sequence[tuple[MemberEvidence, Bar]]) -> float | None:
    """Return the mean compute time of steps for one answer; None where a member has no time."""
    is_known = all(member.asked.role != "member" or bar.seconds > 0 for member, bar in steps)
    return sum(bar.seconds for _, bar in steps) if is_known else None


def _bytes(members: Sequence[MemberEvidence]) -> int | None:
    """Return the memory of all models, each counted once; None where that of one is unknown."""
    by_target: dict[str, int | None] = {}
    for member in members:
        digest = digest_of(member.asked.model.target)
        known = [size for size in (by_target.get(digest), member.peak_bytes) if size is not None]
        by_target[digest] = max(known, default=None)
    sizes = [size for size in by_target.values() if size is not None]
    return sum(sizes) if len(sizes) == len(by_target) else None
