"""A pipeline as a summary reads it: rows of its models, scores of what its last stage combines, results without it."""

from __future__ import annotations

from dataclasses import dataclass

import polars

from vlmhyperbench.domain.pipelines import AskedModel, Key


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemberEvidence:
    """One model that a pipeline asked in one role."""

    asked: AskedModel
    rows: polars.DataFrame
    """Columns `ordinal, status, text, error_code, latency_ns, is_reused`."""
    peak_bytes: int | None = None
    """Peak memory of its engine; None where it was not measured."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AnsweringEvidence:
    """A model, or a pipeline, whose answers the compared stage combines."""

    name: str
    needs: frozenset[Key]
    """The models without which it has no answer: itself, or those of the pipeline; and those that these build on."""
    rows: polars.DataFrame
    """Columns `ordinal, status, text, error_code, key`. `text` is what the stage combines, without reasoning; `key` is
    the normalised answer that a vote counts, null where there is none."""
    scores: polars.DataFrame | None = None
    """Columns `ordinal, value` and the statistics of the first metric; None where its answers were not scored."""
    without: polars.DataFrame | None = None
    """The stage's answers as they were without it: columns `ordinal, text, value` and the statistics; None where they
    cannot be combined again with no model."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EnsembleEvidence:
    """The models of a pipeline in the order in which they are asked, and what answers in the stage that is compared."""

    stage: str
    """The last stage in which several answer; where there is none, the last one."""
    members: tuple[MemberEvidence, ...]
    answering: tuple[AnsweringEvidence, ...]
    """In their order; those that have no answer at all are left out."""
    confidences: polars.DataFrame
    """Columns `ordinal, confidence` of votes, as the stage counted them; empty without a vote."""
    result: polars.DataFrame | None = None
    """The stage's own answers where it is not the last one: columns `ordinal, text, value` and the statistics. Else, or
    where nothing is scored, None: they are the run's."""
    unscored: str = ""
    """Why the members' answers were not scored; empty where they were."""
