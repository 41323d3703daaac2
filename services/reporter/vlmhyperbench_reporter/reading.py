"""Read the data of a run's report from database and storage."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.metadata import version
from uuid import UUID

import polars

from vlmhyperbench.data.manifest import with_hashes
from vlmhyperbench.db import artifacts, evidence, manifests, measures, phases, runs
from vlmhyperbench.db.views import ArtifactView, PhaseView, RunView
from vlmhyperbench.domain.failures import NOT_SENT
from vlmhyperbench.domain.judging import METRIC, Judging, judge_of, judging_of, verdict_request
from vlmhyperbench.domain.specs import EndpointTarget, MetricSpec
from vlmhyperbench.domain.states import PhaseState
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench.domain.units import NS_PER_S
from vlmhyperbench.errors import Damaged, NotFound
from vlmhyperbench.facts.read import read_facts
from vlmhyperbench.reports.bundles import MeasureFile, RunBundle
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.storage import Storage
from vlmhyperbench.summaries.costs import usage_of
from vlmhyperbench.summaries.records import ClaimEvidence, Disturber, JudgeUse, PhaseEvidence
from vlmhyperbench.summaries.spans import clock_offsets, window_s
from vlmhyperbench_reporter.events import read_events
from vlmhyperbench_reporter.pipelines import read_pipeline
from vlmhyperbench_sdk.types import JsonObject

PAYLOAD = (
    *("text", "error", "system_prompt", "user_prompt", "cached_tokens"),
    *("vram_before_bytes", "vram_peak_bytes"),
)
_COUNTED = ("cached_tokens",)
OUTPUT_LINES = 30
OUTPUT_CHARACTERS = 4000
"""Maximum length of the end of an engine's log in a report; the artifact has more."""


async def read_bundle(runtime: Runtime, run_id: UUID) -> RunBundle:
    """Read all data of a run's report.

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
    pipeline = await read_pipeline(runtime, run, run_phases)
    claims += await _claims_of_reused_answers(runtime, [facts, *([pipeline.facts] if pipeline else [])], claims)
    recorded = await _with_outputs(runtime.storage, files, await _recorded(runtime, claims, run))
    facts, events = await read_events(runtime, run_id, facts, recorded)
    answers = with_hashes(facts)
    opened = await runtime.storage.open_all([(manifest.storage_key, manifest.sha256) for manifest in measured])
    contents = await asyncio.to_thread(lambda: [path.read_bytes() for path in opened])
    return RunBundle(
        id=str(run.id),
        name=run.name,
        state=run.state,
        reason=run.reason,
        spec=run.spec,
        spec_digest=run.spec_digest,
        origins={path: str(origin) for path, origin in run.origins.items()} if run.origins is not None else None,
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
        examples_id=run.examples_id,
        left_out=_imported(claims, "answers_of_no_sample"),
        differing=_imported(claims, "answers_of_other_references"),
        judges=await _judges(runtime, run, run_phases, answers, recorded),
        retunes=run.retunes or (),
        stopping=run.stop_decision or _stopping(claims),
        platform_version=version("vlmhyperbench"),
        pipeline=pipeline,
        events=events,
        baseline_rows=await _baseline_rows(runtime, run_id, run_phases),
        summary=await _summary(runtime.storage, files),
    )


async def _summary(storage: Storage, files: Sequence[ArtifactView]) -> bytes | None:
    """Read the summary of the run's newest report; None if it has none, or a damaged one."""
    file = next((file for file in files if file.kind == "summary"), None)
    if file is None:
        return None
    try:
        path = await storage.open(file.storage_key, file.sha256)
    except Damaged:
        return None  # the caller computes it again from the facts
    return await asyncio.to_thread(path.read_bytes)


async def _with_outputs(
    storage: Storage, files: Sequence[ArtifactView], claims: Sequence[ClaimEvidence]
) -> tuple[ClaimEvidence, ...]:
    """Add the end of the engine's log to the failures of claims that stored one, such as those of dead workers."""
    logs = {str(file.claim_id): file for file in files if file.kind == "log" and file.name.startswith("engine-")}
    return tuple([await _with_output(storage, logs.get(claim.id), claim) for claim in claims])


async def _with_output(storage: Storage, log: ArtifactView | None, claim: ClaimEvidence) -> ClaimEvidence:
    if claim.failure is None or log is None:
        return claim
    try:
        path = await storage.open(log.storage_key, log.sha256)
    except Damaged:
        return claim  # the failure is known without it
    text = await asyncio.to_thread(path.read_text, encoding="utf-8", errors="replace")
    output = "\n".join(text.splitlines()[-OUTPUT_LINES:])[-OUTPUT_CHARACTERS:]
    return replace(claim, failure={**claim.failure, "output": output})


async def _baseline_rows(runtime: Runtime, run_id: UUID, of_run: Sequence[PhaseView]) -> polars.DataFrame | None:
    """Read the rows of complete baseline phases, to compute the interference between streams."""
    numbers = [phase.no for phase in of_run if phase.kind == "baseline" and phase.state is PhaseState.COMPLETE]
    if not numbers:
        return None
    return await read_facts(runtime.database, runtime.storage, run_id, phases=numbers, payload=False)


def _imported(claims: Sequence[evidence.ClaimOfJob], name: str) -> int:
    """Sum up a count of IMPORT jobs, of this run or of the run whose answers it reuses."""
    counts = [data.get(name) for data in _outcomes(claims, StepKind.IMPORT)]
    return sum(count for count in counts if isinstance(count, int))


def _stopping(claims: Sequence[evidence.ClaimOfJob]) -> JsonObject | None:
    """Return the outcome of a stop rule that was never certain, from the SCORE jobs."""
    outcomes = [data.get("stopping") for data in _outcomes(claims, StepKind.SCORE)]
    return next((outcome for outcome in outcomes if isinstance(outcome, dict)), None)


def _outcomes(claims: Sequence[evidence.ClaimOfJob], kind: StepKind) -> list[JsonObject]:
    """Return the data of the outcomes of the jobs of a kind."""
    outcomes = {record.job.id: record.job.outcome or {} for record in claims if record.job.kind is kind}
    return [data for outcome in outcomes.values() if isinstance(data := outcome.get("data"), dict)]


async def _judges(
    runtime: Runtime,
    run: RunView,
    run_phases: Sequence[PhaseView],
    answers: polars.DataFrame,
    claims: Sequence[ClaimEvidence],
) -> tuple[JudgeUse, ...]:
    """Sum up the requests, tokens and times of each judge."""
    uses = []
    for phase in run_phases:
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
        total: the number of answers that the run requests.
        claims: the run's claims.
    """
    judging = judging_of(metric)
    rows = rows.filter(
        polars.col("error_code").is_in(list(NOT_SENT)).fill_null(value=False).not_()
    )  # nothing was asked about these
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


async def _claims_of_reused_answers(
    runtime: Runtime, answers: Sequence[polars.DataFrame], known: Sequence[evidence.ClaimOfJob]
) -> list[evidence.ClaimOfJob]:
    """Read the claims of other runs that measured the answers which this run reuses, those of members too."""
    measured = {UUID(claim_id) for rows in answers for claim_id in rows["claim_id"].unique().to_list()}
    other = sorted(measured - {record.claim.id for record in known})
    async with runtime.database.transaction() as session:
        return await evidence.of_claims(session, other) if other else []


async def _recorded(runtime: Runtime, claims: Sequence[evidence.ClaimOfJob], run: RunView) -> tuple[ClaimEvidence, ...]:
    """Return what claims recorded, with the other inferences on their machines at the same time."""
    async with runtime.database.transaction() as session:
        asking = [record.claim for record in claims if STEPS[record.job.kind].asks is not None]
        others = await evidence.neighbours(session, asking)
    return tuple(_claim(record, _disturbers(record, others, run.project_id), run.id) for record in claims)


def _disturbers(
    record: evidence.ClaimOfJob, others: Sequence[evidence.Neighbour], project_id: str
) -> tuple[Disturber, ...] | None:
    own = evidence.sending_of(record.claim)
    if own is None:
        return None
    known = {other.sending.claim_id for other in others}
    marks = (record.claim.client or {}).get("beside")
    strangers = [other for other in marks if other["mark"] not in known] if isinstance(marks, list) else []
    return tuple(
        Disturber(claim_id=other.sending.claim_id, run_id=str(other.run_id), run_name=other.run_name)
        if other.project_id == project_id
        else Disturber(claim_id=other.sending.claim_id, run_id=None, run_name=None)
        for other in others
        if own.is_disturbed_by(other.sending)
    ) + tuple(Disturber(claim_id=other["mark"], run_id=None, run_name=None, is_stranger=True) for other in strangers)


def _claim(record: evidence.ClaimOfJob, disturbed_by: tuple[Disturber, ...] | None, run_id: UUID) -> ClaimEvidence:
    claim = record.claim
    return ClaimEvidence(
        id=str(claim.id),
        job=record.job.kind,
        job_id=str(record.job.id),
        host=claim.host,
        machine=claim.machine,
        engine=claim.engine,
        packages=claim.packages,
        environment=claim.environment,
        client=claim.client,
        measured_at=claim.measured_at,
        resources=claim.resources,
        anchor_monotonic_ns=claim.anchor_monotonic_ns,
        anchor_wall_ns=claim.anchor_wall_ns,
        started_at=_instant(claim.started_at),
        ended_at=_instant(claim.ended_at),
        sending_from_ns=claim.sending_from_ns,
        sending_until_ns=claim.sending_until_ns,
        failure=claim.failure if claim.run_id == run_id else None,
        disturbed_by=disturbed_by,
    )


def _instant(at: datetime | None) -> str:
    return "" if at is None else at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
