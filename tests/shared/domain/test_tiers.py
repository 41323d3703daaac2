"""When a run moves to another tier and when it is deleted, by rules over plain values."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from vlmhyperbench.domain.tiers import StoredRun, Tier, TierPolicy, next_tier, why_kept

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = TierPolicy(warm_after_days=90, cold_after_days=365, restored_days=30, delete_after_days=1000)


def run(tier: Tier, days: float, **changes: object) -> StoredRun:
    return replace(StoredRun(tier=tier, finished_at=NOW - timedelta(days=days)), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tier", "days", "moves_to"),
    [
        (Tier.HOT, 89.9, None),
        (Tier.HOT, 90, Tier.WARM),
        (Tier.HOT, 400, Tier.WARM),
        (Tier.WARM, 10, None),
        (Tier.WARM, 364.9, None),
        (Tier.WARM, 365, Tier.COLD),
        (Tier.COLD, 10, None),
        (Tier.COLD, 4000, None),
    ],
)
def test_a_run_moves_by_its_age_and_one_tier_at_a_time(tier: Tier, days: float, moves_to: Tier | None) -> None:
    assert next_tier(run(tier, days), POLICY, NOW) is moves_to


def test_an_open_run_stays() -> None:
    assert next_tier(StoredRun(tier=Tier.HOT, finished_at=None, wanted=Tier.COLD), POLICY, NOW) is None


@pytest.mark.parametrize(
    ("tier", "wanted", "moves_to"),
    [
        (Tier.HOT, Tier.COLD, Tier.WARM),
        (Tier.WARM, Tier.COLD, Tier.COLD),
        (Tier.COLD, Tier.HOT, Tier.WARM),
        (Tier.WARM, Tier.HOT, Tier.HOT),
        (Tier.HOT, Tier.HOT, None),
    ],
)
def test_what_a_user_asked_for_comes_before_the_policy(tier: Tier, wanted: Tier, moves_to: Tier | None) -> None:
    assert next_tier(run(tier, 4000, wanted=wanted), POLICY, NOW) is moves_to


def test_a_restored_run_stays_for_a_while() -> None:
    restored = run(Tier.WARM, 4000, restored_at=NOW - timedelta(days=29))
    assert next_tier(restored, POLICY, NOW) is None
    assert next_tier(replace(restored, restored_at=NOW - timedelta(days=30)), POLICY, NOW) is Tier.COLD


def test_a_run_that_others_read_is_not_archived() -> None:
    assert next_tier(run(Tier.WARM, 4000, readers=1), POLICY, NOW) is None
    assert next_tier(run(Tier.WARM, 4000, readers=1, wanted=Tier.COLD), POLICY, NOW) is None
    assert next_tier(run(Tier.HOT, 4000, readers=1), POLICY, NOW) is Tier.WARM


@pytest.mark.parametrize(
    "changes",
    [
        {"is_pinned": True},
        {"is_baseline": True},
        {"children": 1},
        {"is_experiment_open": True},
        {"finished_at": None},
        {"finished_at": NOW - timedelta(days=999.9)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_something_keeps_is_not_deleted(changes: dict[str, object]) -> None:
    old = run(Tier.COLD, 1000)
    assert why_kept(old, POLICY, NOW) is None
    assert why_kept(replace(old, **changes), POLICY, NOW)  # type: ignore[arg-type]


def test_nothing_is_deleted_by_age_unless_somebody_says_so() -> None:
    assert why_kept(run(Tier.COLD, 100_000), TierPolicy(), NOW)
