"""Input of a summary and a report: plain values that a service reads from the database.

The frame `facts` has one row per fact, with payloads and manifest columns (`facts.read`). The frame `measures` has one
row per measure, with the columns that SCORE writes. Group columns are named `group.<name>`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars

from vlmhyperbench.analysis.combining import Combining
from vlmhyperbench.domain.identity import definition_of, may_be_paired
from vlmhyperbench.domain.specs import MetricSpec, RunSpec
from vlmhyperbench.domain.steps import asks_the_run
from vlmhyperbench.summaries.members import EnsembleEvidence
from vlmhyperbench.summaries.records import ClaimEvidence, JudgeUse, PhaseEvidence, TokenEvents
from vlmhyperbench.summaries.scores import MetricIdentity
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject

GROUP = "group."
MAX_GROUPS = 30
"""Largest number of values of a group column that the run does not name."""
MAX_GROUP_COLUMNS = 3
_USUAL_GROUPS = ("doc_class", "question_type")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedMetric:
    """A metric that a run pins, opened, with its measures."""

    spec: MetricSpec
    metric: Combining
    environment: str
    """Digest of the packages that computed the measures."""
    extractor: str = "text@1"
    """Extractor that parsed the answers."""
    evaluation_id: str = ""
    """Short id of everything that its numbers depend on."""
    measures: polars.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredMetric(OpenedMetric):
    """A metric with names that are unique within a run; `metric` combines sums of its statistics for any group."""

    key: str
    """Name in machine-readable results; it has the profile where the run has the metric twice."""
    label: str
    """Name for people."""

    @property
    def description(self) -> MetricDescription:
        return self.metric.description

    @property
    def identity(self) -> MetricIdentity:
        """Part of the metric that a summary stores."""
        return MetricIdentity(
            key=self.key,
            label=self.label,
            name=self.spec.name,
            profile=self.spec.profile,
            version=self.spec.version,
            extractor=self.extractor,
            environment=self.environment,
            evaluation_id=self.evaluation_id,
            definition=definition_of(self.spec),
            description=self.description,
        )

    @property
    def perfect(self) -> float | None:
        """Value of a right answer; None where that end of the range is open, or the metric has no direction."""
        return self.identity.perfect


def name_metrics(opened: Sequence[OpenedMetric]) -> tuple[ScoredMetric, ...]:
    """Give metrics the shortest names that are unique, in their order."""
    counts = Counter(metric.spec.name for metric in opened)
    names: dict[str, set[str]] = {}
    for metric in opened:
        names.setdefault(metric.metric.description.title, set()).add(metric.spec.name)
    named = []
    for metric in opened:
        is_single, title = counts[metric.spec.name] == 1, metric.metric.description.title
        suffix = [*([metric.spec.name] if len(names[title]) > 1 else []), *([] if is_single else [metric.spec.profile])]
        named.append(
            ScoredMetric(
                spec=metric.spec,
                metric=metric.metric,
                environment=metric.environment,
                extractor=metric.extractor,
                evaluation_id=metric.evaluation_id,
                measures=metric.measures,
                key=metric.spec.name if is_single else metric.spec.label,
                label=f"{title} ({', '.join(suffix)})" if suffix else title,
            )
        )
    return tuple(named)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """Input of the summary and the report of one run."""

    id: str
    name: str
    state: str
    reason: str | None
    spec: RunSpec
    spec_digest: str
    total: int | None
    """Number of requests that the run was to make."""
    manifest_id: str | None
    samples: int | None
    unreadable: int
    facts: polars.DataFrame
    scored: Sequence[ScoredMetric]
    """Metrics by the first extractor, whose scores count."""
    claims: Sequence[ClaimEvidence]
    phases: Sequence[PhaseEvidence]
    created_at: str = ""
    started_at: str = ""
    finished_at: str = ""
    parent_run_id: str | None = None
    examples_id: str | None = None
    """Hash of the examples that stood before every question."""
    left_out: int = 0
    """Number of imported answers that belong to no sample of the run."""
    differing: int = 0
    """Number of imported answers whose file has none of the references of the data set."""
    stopping: JsonObject | None = None
    """Result of the run's stop rule, as SCORE stores it; None without a stop rule."""
    judges: Sequence[JudgeUse] = ()
    retunes: Sequence[JsonObject] = ()
    """Changes of its requests in flight, oldest first."""
    platform_version: str = ""
    events: TokenEvents | None = None
    """Token events of its answers; None where they were not read."""
    baseline_rows: polars.DataFrame | None = None
    """Rows of its baseline phase, which sends one request at a time; several streams are compared with them."""
    origins: Mapping[str, str] | None = None
    """Path of a value of the spec → where it was written; None where not recorded."""
    ensemble: EnsembleEvidence | None = None
    """The models of a pipeline; None of another target."""
    scored_otherwise: Mapping[str, Sequence[ScoredMetric]] = field(default_factory=dict)
    """Label of another extractor → the same metrics by this extractor."""

    def may_be_paired_with(self, other: RunEvidence) -> bool:
        """Return whether equal keys are the same sample in both runs."""
        return may_be_paired(self.spec.dataset, other.spec.dataset, (self.manifest_id, other.manifest_id))

    @property
    def groups(self) -> tuple[str, ...]:
        """Columns by which quality is shown: those that the run names, else the usual ones and others of few values."""
        present = [column.removeprefix(GROUP) for column in self.facts.columns if column.startswith(GROUP)]
        if self.spec.group_by:
            return tuple(name for name in self.spec.group_by if name in present)
        usual = [name for name in _USUAL_GROUPS if name in present]
        others = [name for name in present if name not in usual and 1 < self._distinct(name) <= MAX_GROUPS]
        return (*usual, *others)[:MAX_GROUP_COLUMNS]

    def _distinct(self, column: str) -> int:
        return int(self.facts[GROUP + column].drop_nulls().n_unique())

    @property
    def primary(self) -> ScoredMetric | None:
        """First metric of the task, which decides whether an answer is wrong."""
        return self.scored[0] if self.scored else None

    @property
    def is_stopped(self) -> bool:
        """Whether its stop rule ended the inference before every sample was asked, also where it was scored again."""
        outcome = self.stopping or {}
        total = outcome.get("of")
        is_certain = outcome.get("state") in {"shown", "refuted"}
        return is_certain and isinstance(total, int) and self.facts.height < total * self.spec.decoding.n

    @property
    def is_unjudged(self) -> bool:
        """Whether requests to a judge were not completed, so that none of its verdicts counts."""
        return any(phase.kind == "judge" and phase.state == "VOID" for phase in self.phases)

    @property
    def generating(self) -> tuple[ClaimEvidence, ...]:
        """Claims that sent requests of the run."""
        return tuple(claim for claim in self.claims if asks_the_run(claim.job))
