"""Where a finished run's rows are, and when a policy moves or deletes them: pure rules over facts about a run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict, Field


class Tier(StrEnum):
    """Where the rows and payloads of a run are."""

    HOT = "hot"
    """Rows in Postgres, payloads in Parquet files in storage."""
    WARM = "warm"
    """Rows and payloads in Parquet files in storage."""
    COLD = "cold"
    """All of them in one compressed archive in storage, which has to be restored before they are read."""


ORDER: Final = (Tier.HOT, Tier.WARM, Tier.COLD)
"""Tiers from the fastest to the cheapest; a run moves by one at a time."""


class TierPolicy(BaseModel):
    """When finished runs move to cheaper tiers and are deleted, counted from their end."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    warm_after_days: float = Field(default=90.0, ge=0)
    """Days after which the rows of a run leave Postgres for a Parquet file."""
    cold_after_days: float = Field(default=365.0, ge=0)
    """Days after which rows and payloads of a run become one compressed archive."""
    restored_days: float = Field(default=30.0, ge=0)
    """Days for which a run that was restored stays where it is."""
    delete_after_days: float | None = Field(default=None, ge=0)
    """Days after which a run is deleted that is neither pinned nor a baseline, and that no kept run refers to; None:
    never."""
    poll_s: float = Field(default=10.0, gt=0)
    """How often a reporting worker looks for what users asked for and what is due."""
    grace_s: float = Field(default=86_400.0, ge=0)
    """Age from which files that nothing refers to any more are deleted; readers may still hold younger ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """What the rules need to know of a run."""

    tier: Tier
    finished_at: datetime | None
    """When it ended; None: it is open."""
    restored_at: datetime | None = None
    wanted: Tier | None = None
    """Tier that a user asked for."""
    is_pinned: bool = False
    is_baseline: bool = False
    """Whether a comparison counts from it: the first run of an experiment, or the baseline of a stop rule."""
    readers: int = 0
    """Runs that read its rows or files and are not archived themselves."""
    children: int = 0
    """Runs that are kept and name it as their parent or as the source of rows."""
    is_experiment_open: bool = False


def next_tier(run: StoredRun, policy: TierPolicy, now: datetime) -> Tier | None:
    """Return the neighbouring tier to which a run moves now; None: it stays.

    What a user asked for comes before the policy. An open run never moves, and a run that others read is not archived.
    """
    if run.finished_at is None:
        return None
    target = run.wanted or _tier_by_age(run, policy, now)
    here, there = ORDER.index(run.tier), ORDER.index(target)
    if here == there:
        return None
    step = ORDER[here + (1 if there > here else -1)]
    return None if step is Tier.COLD and run.readers else step


def why_kept(run: StoredRun, policy: TierPolicy, now: datetime) -> str | None:
    """Return why a run is not deleted; None: it may be.

    Deletion is off unless the policy has a number of days.
    """
    if run.finished_at is None:
        return "it has not ended"
    if run.is_pinned:
        return "it is pinned"
    if run.is_baseline:
        return "it is a baseline"
    if run.children:
        return f"{run.children} run(s) that are kept refer to it"
    if run.is_experiment_open:
        return "its experiment has not ended"
    if policy.delete_after_days is None:
        return "nothing is deleted by age: VLMHB_TIERS__DELETE_AFTER_DAYS is not set"
    left = timedelta(days=policy.delete_after_days) - (now - run.finished_at)
    return f"it is younger than {policy.delete_after_days:g} days" if left > timedelta(0) else None


def _tier_by_age(run: StoredRun, policy: TierPolicy, now: datetime) -> Tier:
    if run.finished_at is None or _is_within(run.restored_at, policy.restored_days, now):
        return run.tier
    for tier, days in ((Tier.COLD, policy.cold_after_days), (Tier.WARM, policy.warm_after_days)):
        if not _is_within(run.finished_at, days, now):
            return max(tier, run.tier, key=ORDER.index)
    return run.tier


def _is_within(instant: datetime | None, days: float, now: datetime) -> bool:
    return instant is not None and now - instant < timedelta(days=days)
