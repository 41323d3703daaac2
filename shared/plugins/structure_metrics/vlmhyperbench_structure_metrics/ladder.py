"""The ladder of structural fidelity: every level of a group, from the sums of its samples' statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Every level of a group of answers; shares from 0 to 1, None if undefined.

    L4 to L6 concern the answers whose reference is JSON. `…_repaired` is the level after the declared repair; it is
    separate from the others.
    """

    answers: int
    """Number of scored answers."""
    with_schema: int
    with_reference: int
    """Number of answers whose reference is JSON."""
    not_empty: float
    """L0."""
    parses: float
    """L1: strict JSON."""
    parses_repaired: float
    """L2: JSON without or after the declared repair."""
    valid: float
    """L3, the gate: JSON that is valid under its schema, or without a schema JSON."""
    valid_repaired: float
    key_precision: float | None
    """L4: shared keys / predicted keys, pooled; None without predicted keys."""
    key_recall: float | None
    """L4: shared keys / expected keys, pooled; None without expected keys."""
    value_score: float | None
    """L5: mean closeness of all values, pooled."""
    exact: float | None
    """L6: share of equal documents."""
    key_precision_repaired: float | None
    key_recall_repaired: float | None
    value_score_repaired: float | None
    exact_repaired: float | None


def ladder_of(sums: Mapping[str, float]) -> Ladder | None:
    """Compute the ladder from sums of the statistics of `structural_fidelity`; None without scored answers."""
    count = sums.get("count", 0.0)
    if count <= 0:
        return None

    def share(part: str, whole: str) -> float | None:
        return sums.get(part, 0.0) / sums[whole] if sums.get(whole, 0.0) > 0 else None

    return Ladder(
        answers=round(count),
        with_schema=round(sums.get("has_schema", 0.0)),
        with_reference=round(sums.get("has_reference", 0.0)),
        not_empty=sums["l0"] / count,
        parses=sums["l1"] / count,
        parses_repaired=sums["l2_repaired"] / count,
        valid=sums["l3"] / count,
        valid_repaired=sums["l3_repaired"] / count,
        key_precision=share("l4_tp", "l4_predicted"),
        key_recall=share("l4_tp", "l4_expected"),
        value_score=share("l5_sum", "l5_count"),
        exact=share("l6", "has_reference"),
        key_precision_repaired=share("l4_tp_repaired", "l4_predicted_repaired"),
        key_recall_repaired=share("l4_tp_repaired", "l4_expected"),
        value_score_repaired=share("l5_sum_repaired", "l5_count_repaired"),
        exact_repaired=share("l6_repaired", "has_reference"),
    )
