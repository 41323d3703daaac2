"""Read what a report says of a run from database and storage."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from uuid import UUID

import polars

from vlmhyperbench.db import artifacts, evidence, manifests, measures, phases, runs
from vlmhyperbench.db.views import ArtifactView, PhaseView, RunView
from vlmhyperbench.domain.failures import UNREADABLE_SAMPLE
from vlmhyperbench.domain.judging import METRIC, Judging, judge_of, judging_of, verdict_request
from vlmhyperbench.domain.specs import EndpointTarget, MetricSpec
from vlmhyperbench.domain.states import PhaseState
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench.domain.units import NS_PER_S
from vlmhyperbench.errors import Damaged, NotFound
from vlmhyperbench.facts.read import read_facts
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.storage import Storage
from vlmhyperbench.summaries.costs import usage_of
from vlmhyperbench.summaries.records import ClaimEvidence, Disturber, JudgeUse, PhaseEvidence
from vlmhyperbench.summaries.spans import clock_offsets, window_s
from vlmhyperbench_reporter.bundles import MeasureFile, RunBundle
from vlmhyperbench_reporter.events import read_events
from vlmhyperbench_sdk.types import JsonObject

PAYLOAD = ("text", "error", "system_prompt", "user_prompt", "cached_tokens")
_COUNTED = ("cached_tokens",)
_NO_SAMPLES = polars.Schema(
    {
        "key": polars.String(),
        "question": polars.String(),
        "references": polars.List(polars.String()),
        "images": polars.List(polars.String()),
        "pixels": polars.Int64(),
        "metadata": polars.String(),
    }
)


async def read_bundle(runtime: Runtime, run_id: UUID) -> RunBundle:
    """Read everything that a report says of a run.

    Raises:
        NotFound: there is no such run.
        Damaged: a file of it is missing from storage, or is not the one that was committed.
        Unavailable: database or storage do not answer.
    """
    async with runtime.database.transaction() as session:
        run = await runs.get(session, run_id)
        if run is None:
            raise NotFound(f"There is no run {run_id}.")
        manifest = await manifests.get(session, run.manifest_id) if run.manifest_id else None
        run_phases = await phases.of_run(session, run_id)
        claims = await evidence.of_run(session, run_id)
        measured = await measures.of_run(session, run_id)
        files = await artifacts.of_run(session, run_id)
    facts = await read_facts(runtime.database, runtime.storage, run_id, payload=PAYLOAD)
    claims += await _behind(runtime, facts, claims)
    recorded = await _recorded(runtime, claims, project_id=run.project_id)
    facts, events = await read_events(runtime, run_id, facts, recorded)
    answers = _with_samples(facts)
    opened = await runtime.storage.open_all([(manifest.storage_key, manifest.sha256) for manifest in measured])
    contents = await asyncio.to_thread(lambda: [path.read_bytes() for path in opened])
    return RunBundle(
        id=str(run.id),
        name=run.name,
        state=run.state,
        reason=run.reason,
        spec=run.spec,
        spec_digest=run.spec_digest,
        total=run.total,
        manifest_id=run.manifest_id,
        samples=manifest.samples if manifest else None,
        unreadable=manifest.unreadable if manifest else 0,
        facts=answers,
        measures=tuple(
            MeasureFile(
                identity=identity, environment=file.environment, evaluation_id=file.evaluation_id, content=content
            )
            for file, content in zip(measured, contents, strict=True)
            for identity in file.metrics[:1]
        ),
        claims=recorded,
        phases=tuple(
            PhaseEvidence(no=phase.no, kind=phase.kind, state=phase.state, count=phase.count, params=phase.params)
            for phase in run_phases
        ),
        created_at=_instant(run.created_at),
        started_at=_instant(run.started_at),
        finished_at=_instant(run.finished_at),
        parent_run_id=str(run.parent_run_id) if run.parent_run_id else None,
        left_out=_imported(claims, "answers_of_no_sample"),
        differing=_imported(claims, "answers_of_other_references"),
        judged=await _judged(runtime, run, run_phases, answers, recorded),
        stopping=run.stop_decision or _stopping(claims),
        platform_version=version("vlmhyperbench"),
        events=events,
        alone=await _alone(runtime, run_id, run_phases),
        summary=await _summary(runtime.storage, files),
    )


async def _summary(storage: Storage, files: Sequence[ArtifactView]) -> bytes | None:
    """Read the summary of the run's newest report; None where there is none that is whole."""
    file = next((file for file in files if file.kind == "summary"), None)
    if file is None:
        return None
    try:
        path = await storage.open(file.storage_key, file.sha256)
    except Damaged:
        return None  # it is derived: the caller computes it anew
    return await asyncio.to_thread(path.read_bytes)


async def _alone(runtime: Runtime, run_id: UUID, found: Sequence[PhaseView]) -> polars.DataFrame | None:
    """Read the requests that were asked one after the other, to tell what streams cost each other."""
    phases = [phase.no for phase in found if phase.kind == "baseline" and phase.state is PhaseState.COMPLETE]
    return await read_facts(runtime.database, runtime.storage, run_id, phases=phases, payload=False) if phases else None


def _imported(claims: Sequence[evidence.ClaimOfJob], name: str) -> int:
    """Sum up what IMPORT jobs counted, in this run or in the one whose answers it keeps."""
    counts = [data.get(name) for data in _outcomes(claims, StepKind.IMPORT)]
    return sum(count for count in counts if isinstance(count, int))


def _stopping(claims: Sequence[evidence.ClaimOfJob]) -> JsonObject | None:
    """Return what SCORE says of a stop rule that was never certain."""
    found = [data.get("stopping") for data in _outcomes(claims, StepKind.SCORE)]
    return next((outcome for outcome in found if isinstance(outcome, dict)), None)


def _outcomes(claims: Sequence[evidence.ClaimOfJob], kind: StepKind) -> list[JsonObject]:
    """Return what the jobs of a kind told at their end, each once."""
    outcomes = {found.job.id: found.job.outcome or {} for found in claims if found.job.kind is kind}
    return [data for outcome in outcomes.values() if isinstance(data := outcome.get("data"), dict)]


async def _judged(
    runtime: Runtime,
    run: RunView,
    found: Sequence[PhaseView],
    answers: polars.DataFrame,
    claims: Sequence[ClaimEvidence],
) -> tuple[JudgeUse, ...]:
    """Sum up what asking each judge took."""
    uses = []
    for phase in found:
        if phase.kind != "judge":
            continue
        rows = await read_facts(runtime.database, runtime.storage, run.id, phases=[phase.no], payload=_COUNTED)
        metric = judge_of(run.pinned_spec(), str(phase.params[METRIC]))
        uses.append(use_of_judge(metric, rows, answers, total=run.total or answers.height, claims=claims))
    return tuple(uses)


def use_of_judge(
    metric: MetricSpec,
    rows: polars.DataFrame,
    answers: polars.DataFrame,
    *,
    total: int,
    claims: Sequence[ClaimEvidence],
) -> JudgeUse:
    """Sum up the rows of a judge's phase.

    Args:
        metric: the judge.
        rows: its verdicts.
        answers: the rows that it judges, with `images`.
        total: how many answers the run was to get.
        claims: what the run's claims recorded.
    """
    judging = judging_of(metric)
    rows = rows.filter(polars.col("error_code").ne_missing(UNREADABLE_SAMPLE))  # nothing was asked about these
    asked = _with_shown_images(rows.filter(~polars.col("is_reused")), answers, judging, total)
    offsets = clock_offsets(claims) if isinstance(judging.target, EndpointTarget) else None
    return JudgeUse(
        metric=metric.label,
        requests=rows.height,
        kept=rows.height - asked.height,
        failed=rows.filter(polars.col("status") != "ok").height,
        busy_s=int(asked["latency_ns"].sum()) / NS_PER_S,
        **asdict(usage_of(asked, window_s=window_s(asked, offsets))),
    )


def _with_shown_images(
    verdicts: polars.DataFrame, answers: polars.DataFrame, judging: Judging, total: int
) -> polars.DataFrame:
    """Give each verdict the images that the judge was shown: those of the answer that it judges, or none."""
    verdicts = verdicts.drop("images", strict=False)
    if not judging.images:
        return verdicts.with_columns(polars.lit([], dtype=polars.List(polars.String)).alias("images"))
    judged = polars.Series(
        "judged",
        [verdict_request(judging, ordinal, total).answer for ordinal in verdicts["ordinal"].to_list()],
        dtype=polars.Int64,
    )
    images = answers.select(polars.col("ordinal").alias("judged"), "images").unique("judged", keep="last")
    return verdicts.with_columns(judged).join(images, on="judged", how="left", maintain_order="left")


async def _behind(
    runtime: Runtime, facts: polars.DataFrame, known: Sequence[evidence.ClaimOfJob]
) -> list[evidence.ClaimOfJob]:
    """Read the claims of other runs that measured what this one keeps."""
    measured = {UUID(claim_id) for claim_id in facts["claim_id"].unique().to_list()}
    other = sorted(measured - {found.claim.id for found in known})
    async with runtime.database.transaction() as session:
        return await evidence.of_claims(session, other) if other else []


def _with_samples(facts: polars.DataFrame) -> polars.DataFrame:
    """Name images by their hashes, count their pixels, and give a run that was never indexed the same columns."""
    if "images" in facts.columns:
        image = polars.element().struct
        hashes = polars.col("images").list.eval(image.field("sha256"))
        sizes = polars.col("images").list.eval(image.field("width").cast(polars.Int64) * image.field("height"))
        facts = facts.with_columns(hashes.fill_null([]), sizes.list.sum().alias("pixels"))
    missing = {name: kind for name, kind in _NO_SAMPLES.items() if name not in facts.columns}
    return facts.with_columns(polars.lit(None, dtype=kind).alias(name) for name, kind in missing.items())


async def _recorded(
    runtime: Runtime, claims: Sequence[evidence.ClaimOfJob], *, project_id: str
) -> tuple[ClaimEvidence, ...]:
    """Say what claims recorded, and what else sent requests on their machines meanwhile."""
    async with runtime.database.transaction() as session:
        asking = [found.claim for found in claims if STEPS[found.job.kind].asks is not None]
        others = await evidence.neighbours(session, asking)
    return tuple(_claim(found, _disturbers(found, others, project_id)) for found in claims)


def _disturbers(
    found: evidence.ClaimOfJob, others: Sequence[evidence.Neighbour], project_id: str
) -> tuple[Disturber, ...] | None:
    own = evidence.sending_of(found.claim)
    if own is None:
        return None
    known = {other.sending.claim_id for other in others}
    told = (found.claim.client or {}).get("beside")
    strangers = [other for other in told if other["mark"] not in known] if isinstance(told, list) else []
    return tuple(
        Disturber(claim_id=other.sending.claim_id, run_id=str(other.run_id), run_name=other.run_name)
        if other.project_id == project_id
        else Disturber(claim_id=other.sending.claim_id, run_id=None, run_name=None)
        for other in others
        if own.is_disturbed_by(other.sending)
    ) + tuple(Disturber(claim_id=other["mark"], run_id=None, run_name=None, is_stranger=True) for other in strangers)


def _claim(found: evidence.ClaimOfJob, disturbed_by: tuple[Disturber, ...] | None) -> ClaimEvidence:
    claim = found.claim
    return ClaimEvidence(
        id=str(claim.id),
        job=found.job.kind,
        job_id=str(found.job.id),
        host=claim.host,
        machine=claim.machine,
        engine=claim.engine,
        packages=claim.packages,
        client=claim.client,
        measured_at=claim.measured_at,
        resources=claim.resources,
        anchor_monotonic_ns=claim.anchor_monotonic_ns,
        anchor_wall_ns=claim.anchor_wall_ns,
        started_at=_instant(claim.started_at),
        ended_at=_instant(claim.ended_at),
        sending_from_ns=claim.sending_from_ns,
        sending_until_ns=claim.sending_until_ns,
        disturbed_by=disturbed_by,
    )


def _instant(at: datetime | None) -> str:
    return "" if at is None else at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
