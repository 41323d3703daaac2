"""The summary of a run: the one value that reports, comparisons, gates, lists and exports read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vlmhyperbench.domain.failure_groups import FailureGroup
from vlmhyperbench.domain.identity import Measurement, kinds_of_machines
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.domain.steps import asks_the_run
from vlmhyperbench.summaries.records import ClaimEvidence, JudgeUse, PhaseEvidence
from vlmhyperbench.summaries.scores import Crossing, MetricIdentity, Score
from vlmhyperbench.summaries.speeds import Performance
from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Requests of the phases that count."""

    requested: int
    answered: int
    scored: int
    """Rows for which the primary metric has a value."""
    model_failures: int
    infrastructure_failures: int
    unscored: int
    """Answered, but the primary metric gives no number."""
    truncated: int
    """Answers that ended at the token limit."""
    truncation_rate: float | None
    """Share of the answers that did."""
    missing: int
    """Requested, but without any row: the run ended early."""
    unreadable: int
    """Rows of samples that could not be read, so that nothing was asked; infrastructure failures among them."""

    @property
    def rows(self) -> int:
        """Requests that have a row."""
        return self.requested - self.missing


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """What a run came to. Metrics stand in the task's order, the primary one first."""

    id: str
    name: str
    state: str
    """The state in which the run ends: a summary is made while its last job is still under way."""
    reason: str | None
    """Why it failed."""
    spec: RunSpec
    """Without what could be secret in its addresses."""
    spec_digest: str
    parent_run_id: str | None
    platform_version: str
    created_at: str
    started_at: str
    finished_at: str
    """When the run ended, or else its last measuring claim; empty where neither is known."""
    manifest_id: str | None
    """Hash of the samples that were asked."""
    total: int | None
    """Requests that the run was to make."""
    samples: int | None
    unreadable: int
    """Samples of the data set that could not be read."""
    left_out: int
    """Imported answers that belong to no sample of the run."""
    differing: int
    """Imported answers whose file knows none of the references that the data set has."""
    stopping: JsonObject | None
    """What the run's stop rule came to; None where it has none."""
    is_stopped: bool
    """Whether its stop rule ended the inference before every sample was asked."""
    is_unjudged: bool
    """Whether a judge could not be asked to the end, so that none of its verdicts counts."""
    counts: Counts
    performance: Performance
    described: tuple[MetricIdentity, ...]
    """Every metric, by the extractor that counts."""
    metrics: tuple[Score, ...]
    """Every metric over all answers."""
    group_columns: tuple[str, ...]
    """Columns by which quality is shown."""
    groups: Mapping[str, tuple[Score, ...]]
    """Every metric by the values of one column."""
    crossings: tuple[Crossing, ...]
    """Every metric by two columns at once."""
    fields: tuple[Score, ...]
    """Metrics that compare fields, by field."""
    otherwise: Mapping[str, tuple[Score, ...]]
    """Every metric over all answers by the other extractors: their label → scores."""
    judges: tuple[JudgeUse, ...]
    errors: tuple[FailureGroup, ...]
    """What requests failed with, the most frequent first."""
    phases: tuple[PhaseEvidence, ...]
    claims: tuple[ClaimEvidence, ...]

    @property
    def primary(self) -> MetricIdentity | None:
        """The first metric of the task: wrong answers are wrong by it."""
        return self.described[0] if self.described else None

    @property
    def generating(self) -> tuple[ClaimEvidence, ...]:
        """Claims that measured something."""
        return tuple(claim for claim in self.claims if asks_the_run(claim.job))

    @property
    def measurement(self) -> Measurement:
        """What other runs have to share so that speeds can be compared."""
        return Measurement(
            scenario=self.spec.scenario,
            manifest_id=self.manifest_id,
            machines=kinds_of_machines(claim.machine for claim in self.generating),
        )

    def identity(self, key: str) -> MetricIdentity:
        """Return the metric that a score is by."""
        return next(found for found in self.described if found.key == key)

    def ended(self, state: RunState, *, reason: str | None, finished_at: str) -> RunSummary:
        """Return the summary of a run that has ended since it was made; one that is still open is as it says."""
        if not state.is_terminal:
            return self
        return replace(self, state=state.value, reason=reason, finished_at=finished_at or self.finished_at)
