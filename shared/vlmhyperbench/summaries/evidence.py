"""What a summary and a report are made from: plain values that a service reads from the database.

Frames: `facts` has one row per fact with payloads and manifest columns (`facts.read`); `measures` one per measure
(the columns that SCORE writes). Group columns are named `group.<name>`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars

from vlmhyperbench.domain.identity import definition_of, may_be_paired
from vlmhyperbench.domain.specs import MetricSpec, RunSpec
from vlmhyperbench.domain.steps import asks_the_run
from vlmhyperbench.summaries.records import ClaimEvidence, JudgeUse, PhaseEvidence, TokenEvents
from vlmhyperbench.summaries.scores import MetricIdentity
from vlmhyperbench_sdk.protocols import Metric, MetricDescription
from vlmhyperbench_sdk.types import JsonObject

GROUP = "group."
MAX_GROUPS = 30
"""A column of more values than that is no group column unless the run says so."""
MAX_GROUP_COLUMNS = 3
_USUAL_GROUPS = ("doc_class", "question_type")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedMetric:
    """A metric that a run pins, opened, with what it measured."""

    spec: MetricSpec
    metric: Metric
    environment: str
    """Digest of the packages that computed it."""
    extractor: str = "text@1"
    """What read the answers for it."""
    evaluation_id: str = ""
    """Short id of everything that decides its numbers."""
    measures: polars.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredMetric(OpenedMetric):
    """A metric under the names that keep it apart; `metric` combines sums of its statistics for any group."""

    key: str
    """How machines name it: with its profile where the run has the metric twice."""
    label: str
    """How people do."""

    @property
    def description(self) -> MetricDescription:
        return self.metric.description

    @property
    def identity(self) -> MetricIdentity:
        """What is stored of it."""
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
        """The value of a right answer, where the range has such an end."""
        return self.identity.perfect


def name_metrics(opened: Sequence[OpenedMetric]) -> tuple[ScoredMetric, ...]:
    """Give metrics the shortest names that keep them apart, in their order."""
    often = Counter(metric.spec.name for metric in opened)
    names: dict[str, set[str]] = {}
    for metric in opened:
        names.setdefault(metric.metric.description.title, set()).add(metric.spec.name)
    named = []
    for metric in opened:
        is_single, title = often[metric.spec.name] == 1, metric.metric.description.title
        apart = [*([metric.spec.name] if len(names[title]) > 1 else []), *([] if is_single else [metric.spec.profile])]
        named.append(
            ScoredMetric(
                spec=metric.spec,
                metric=metric.metric,
                environment=metric.environment,
                extractor=metric.extractor,
                evaluation_id=metric.evaluation_id,
                measures=metric.measures,
                key=metric.spec.name if is_single else metric.spec.label,
                label=f"{title} ({', '.join(apart)})" if apart else title,
            )
        )
    return tuple(named)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """Everything that a report says of one run follows from this."""

    id: str
    name: str
    state: str
    reason: str | None
    spec: RunSpec
    spec_digest: str
    total: int | None
    """Requests that the run was to make."""
    manifest_id: str | None
    samples: int | None
    unreadable: int
    facts: polars.DataFrame
    scored: Sequence[ScoredMetric]
    """By the first extractor, which is the one that counts."""
    claims: Sequence[ClaimEvidence]
    phases: Sequence[PhaseEvidence]
    created_at: str = ""
    started_at: str = ""
    finished_at: str = ""
    parent_run_id: str | None = None
    left_out: int = 0
    """Imported answers that belong to no sample of the run."""
    differing: int = 0
    """Imported answers whose file knows none of the references that the data set has."""
    stopping: JsonObject | None = None
    """What the run's stop rule came to, as SCORE tells it; None where it has none."""
    judged: Sequence[JudgeUse] = ()
    platform_version: str = ""
    events: TokenEvents | None = None
    """When its tokens came; None where nobody read that."""
    alone: polars.DataFrame | None = None
    """Rows of its baseline phase, asked one after the other: what several streams are compared with."""
    scored_otherwise: Mapping[str, Sequence[ScoredMetric]] = field(default_factory=dict)
    """The same metrics by the other extractors: their label → what they measured."""

    def may_be_paired_with(self, other: RunEvidence) -> bool:
        """Whether samples of one key are one sample in both."""
        return may_be_paired(self.spec.dataset, other.spec.dataset, (self.manifest_id, other.manifest_id))

    @property
    def groups(self) -> tuple[str, ...]:
        """Columns by which quality is shown: those the run asks for, else the usual ones and others of few values."""
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
        """The first metric of the task: wrong answers are wrong by it."""
        return self.scored[0] if self.scored else None

    @property
    def is_stopped(self) -> bool:
        """Whether its stop rule ended the inference before every sample was asked; re-scored answers know it too."""
        outcome = self.stopping or {}
        of = outcome.get("of")
        is_certain = outcome.get("state") in {"shown", "refuted"}
        return is_certain and isinstance(of, int) and self.facts.height < of * self.spec.decoding.n

    @property
    def is_unjudged(self) -> bool:
        """Whether a judge could not be asked to the end, so that none of its verdicts counts."""
        return any(phase.kind == "judge" and phase.state == "VOID" for phase in self.phases)

    @property
    def generating(self) -> tuple[ClaimEvidence, ...]:
        """Claims that measured something."""
        return tuple(claim for claim in self.claims if asks_the_run(claim.job))
