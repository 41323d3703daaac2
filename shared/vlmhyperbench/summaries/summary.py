"""The summary of a run: the one value that reports, comparisons, gates, lists and exports read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vlmhyperbench.domain.failure_groups import FailureGroup
from vlmhyperbench.domain.identity import Measurement, kinds_of_machines, variables_of
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.domain.steps import answers_for_the_run, asks_the_run
from vlmhyperbench.summaries.ensemble_records import EnsembleSummary
from vlmhyperbench.summaries.manifest import fallbacks_of
from vlmhyperbench.summaries.records import ClaimEvidence, JudgeUse, PhaseEvidence
from vlmhyperbench.summaries.scores import Crossing, MetricIdentity, Score
from vlmhyperbench.summaries.speeds import Performance
from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Numbers of requests of the phases that count."""

    requested: int
    answered: int
    scored: int
    """Number of rows for which the primary metric has a value."""
    model_failures: int
    infrastructure_failures: int
    unscored: int
    """Number of answers to which the primary metric gives no value."""
    truncated: int
    """Number of answers that are known to have ended at the token limit."""
    truncation_rate: float | None
    """Share of the answers that ended at the token limit; None if of one it is not known why it ended."""
    missing: int
    """Number of requests without a row, since the run ended early."""
    unreadable: int
    """Number of rows of samples that could not be read; they are among the infrastructure failures."""

    @property
    def rows(self) -> int:
        """Number of requests that have a row."""
        return self.requested - self.missing


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """Everything that a report states about a run. Metrics are in the task's order, the primary metric first."""

    id: str
    name: str
    state: str
    """State in which the run ends; the summary is computed while its last job is still running."""
    reason: str | None
    """Why the run failed."""
    spec: RunSpec
    """Spec of the run, without parts of addresses that could be secret."""
    spec_digest: str
    parent_run_id: str | None
    platform_version: str
    created_at: str
    started_at: str
    finished_at: str
    """End of the run, or else of its last measuring claim; empty where both are unknown."""
    manifest_id: str | None
    """Hash of the samples that were asked."""
    total: int | None
    """Number of requests that the run was to make."""
    samples: int | None
    unreadable: int
    """Number of samples of the data set that could not be read."""
    left_out: int
    """Number of imported answers that belong to no sample of the run."""
    differing: int
    """Number of imported answers whose file has none of the references of the data set."""
    stopping: JsonObject | None
    """Result of the run's stop rule; None without a stop rule."""
    is_stopped: bool
    """Whether its stop rule ended the inference before every sample was asked."""
    is_unjudged: bool
    """Whether requests to a judge were not completed, so that none of its verdicts counts."""
    counts: Counts
    performance: Performance
    described: tuple[MetricIdentity, ...]
    """Every metric, by the extractor whose scores count."""
    metrics: tuple[Score, ...]
    """Every metric over all answers."""
    group_columns: tuple[str, ...]
    """Columns by which quality is shown."""
    groups: Mapping[str, tuple[Score, ...]]
    """Group column → every metric by the values of the column."""
    crossings: tuple[Crossing, ...]
    """Every metric by two columns at once."""
    fields: tuple[Score, ...]
    """Metrics that compare fields, by field."""
    otherwise: Mapping[str, tuple[Score, ...]]
    """Label of another extractor → every metric over all answers."""
    judges: tuple[JudgeUse, ...]
    errors: tuple[FailureGroup, ...]
    """Errors of failed requests, the most frequent first."""
    phases: tuple[PhaseEvidence, ...]
    claims: tuple[ClaimEvidence, ...]
    ensemble: EnsembleSummary | None = None
    """Of a pipeline; None of another target, and of summaries of earlier versions."""

    @property
    def primary(self) -> MetricIdentity | None:
        """First metric of the task, which decides whether an answer is wrong."""
        return self.described[0] if self.described else None

    @property
    def generating(self) -> tuple[ClaimEvidence, ...]:
        """Claims that sent requests of the run."""
        return tuple(claim for claim in self.claims if asks_the_run(claim.job))

    @property
    def fallbacks(self) -> tuple[JsonObject, ...]:
        """What was given up so that its models fit, each step once; also by the models of a pipeline."""
        loading = (claim for claim in self.claims if answers_for_the_run(claim.job))
        steps = {repr(sorted(step.items())): step for claim in loading for step in fallbacks_of(claim.environment)}
        return tuple(steps.values())

    @property
    def is_degraded(self) -> bool:
        """Whether a model was loaded with less than full quality, or left out, so that it fits."""
        return any(step.get("is_lossy") is True for step in self.fallbacks)

    @property
    def measurement(self) -> Measurement:
        """Properties that other runs must share so that speeds can be compared."""
        return Measurement(
            scenario=self.spec.scenario,
            manifest_id=self.manifest_id,
            machines=kinds_of_machines(claim.machine for claim in self.generating),
            variables=variables_of(claim.engine for claim in self.generating),
        )

    def identity(self, key: str) -> MetricIdentity:
        """Return the metric with a key."""
        return next(identity for identity in self.described if identity.key == key)

    def ended(self, state: RunState, *, reason: str | None, finished_at: str) -> RunSummary:
        """Return the summary with the final state of its run; a run that is still open changes nothing."""
        if not state.is_terminal:
            return self
        return replace(self, state=state.value, reason=reason, finished_at=finished_at or self.finished_at)
