"""Compute the summary of a run: the one place where facts, measures and spec become numbers."""

from __future__ import annotations

from vlmhyperbench.domain.publishing import public_spec
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.summaries.counting import count, errors_of
from vlmhyperbench.summaries.ensembles import ensemble_of
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench.summaries.performance import performance_of
from vlmhyperbench.summaries.quality import by_column, by_field, crossings, overall
from vlmhyperbench.summaries.summary import Counts, RunSummary


def summarise_run(run: RunEvidence) -> RunSummary:
    """Return the summary of a run; the same evidence gives the same summary."""
    counts = count(run)
    return RunSummary(
        id=run.id,
        name=run.name,
        state=_final_state(run, counts),
        reason=run.reason,
        spec=public_spec(run.spec),
        spec_digest=run.spec_digest,
        parent_run_id=run.parent_run_id,
        platform_version=run.platform_version,
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.finished_at or max((claim.ended_at for claim in run.generating), default=""),
        manifest_id=run.manifest_id,
        total=run.total,
        samples=run.samples,
        unreadable=run.unreadable,
        left_out=run.left_out,
        differing=run.differing,
        stopping=run.stopping,
        is_stopped=run.is_stopped,
        is_unjudged=run.is_unjudged,
        counts=counts,
        performance=performance_of(run, missing=counts.missing),
        described=tuple(scored.identity for scored in run.scored),
        metrics=overall(run, run.scored),
        group_columns=run.groups,
        groups=by_column(run),
        crossings=crossings(run),
        fields=by_field(run),
        otherwise={label: overall(run, metrics) for label, metrics in run.scored_otherwise.items()},
        judges=tuple(run.judges),
        errors=tuple(errors_of(run)),
        phases=tuple(run.phases),
        claims=tuple(run.claims),
        ensemble=ensemble_of(run),
    )


def _final_state(run: RunEvidence, counts: Counts) -> str:
    """Return the state in which a run will end: a summary is computed before the run ends."""
    if RunState(run.state).is_terminal:
        return run.state
    is_whole = counts.answered == counts.requested and not run.is_unjudged
    return RunState.SUCCEEDED.value if is_whole else RunState.PARTIAL.value
