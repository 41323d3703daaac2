"""The models of a pipeline as a summary reads them: rows of each, scores of the members, results without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars

from vlmhyperbench.domain.pipelines import AskedModel, PipelineTarget


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemberEvidence:
    """One model that a pipeline asked in one role."""

    asked: AskedModel
    rows: polars.DataFrame
    """Columns `ordinal, status, text, error_code, latency_ns, is_reused, key`. `key` is the normalised answer that a
    vote counts, null where there is none."""
    scores: polars.DataFrame | None = None
    """Columns `ordinal, value` and the statistics of the first metric; None where its answers were not scored."""
    without: polars.DataFrame | None = None
    """The run's answers as they were without this member: columns `ordinal, text, value` and the statistics; None
    where they cannot be combined again with no model."""
    peak_bytes: int | None = None
    """Peak memory of its engine; None where it was not measured."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EnsembleEvidence:
    """The models of a pipeline, in the order in which they are asked."""

    members: tuple[MemberEvidence, ...]
    confidences: polars.DataFrame
    """Columns `ordinal, confidence` of votes, as the last stage counted them; empty without a vote."""
    unscored: str = ""
    """Why the members' answers were not scored; empty where they were."""

    def members_of_the_last_stage(self, pipeline: PipelineTarget) -> Sequence[MemberEvidence]:
        """Return the members whose answers the last stage combines, in their order."""
        last = pipeline.stages[-1].id
        return [member for member in self.members if member.asked.stage.id == last and member.asked.role == "member"]
