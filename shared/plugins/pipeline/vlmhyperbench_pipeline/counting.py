"""Count votes: classes of equal answers, their support, the rule, the quorum and how ties are decided."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rapidfuzz import fuzz

from vlmhyperbench_sdk.aggregation import Aggregated, MemberAnswer, Status

RULES: Final = ("plurality", "majority", "unanimous", "ranked")
TIES: Final = ("weight", "priority", "hash", "abstain")

MICRO: Final = 1_000_000
"""Weights are counted in millionths, so that 0.1 + 0.2 is a tie with 0.3."""

_LONG_CHARS: Final = 200
_SIMILAR, _SIMILAR_LONG = 0.85, 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """How votes are counted; validated by `Vote`."""

    rule: str
    quorum: int | None
    """Least number of members that must have voted; None: half of them, rounded up."""
    ties: tuple[str, ...]
    is_fuzzy: bool


def count(
    members: Sequence[MemberAnswer], keys: Sequence[str | None], counting: Counting, *, linked: str = ""
) -> Aggregated:
    """Count one vote for each member; None abstains, and stays in the total.

    Of similar keys, those are one that begin with `linked`; what is compared stands after it.
    """
    n_valid = len(keys) - keys.count(None)
    weights = weights_of(members)
    total = sum(weights)
    classes: dict[str, list[int]] = {}
    for index, key in enumerate(keys):
        if key is not None:
            classes.setdefault(key, []).append(index)
    if counting.is_fuzzy and len(classes) > 1:
        classes = _linked(classes, linked)
        counted = {voter: key for key, voters in classes.items() for voter in voters}
        keys = [counted.get(index) for index in range(len(keys))]
    trace = {"keys": list(keys)}
    if not classes:
        return Aggregated(value=None, status="no_valid", n_valid=0, trace=trace)
    if len(classes) == 1:
        ((top, voters),) = classes.items()
        first, second, is_tie = sum(weights[voter] for voter in voters), 0, False
        winner: str | None = top
        leading = [top]
    else:
        sums = {key: sum(weights[voter] for voter in voters) for key, voters in classes.items()}
        first, second = sorted(sums.values(), reverse=True)[:2]
        leading = [key for key, support in sums.items() if support == first]
        is_tie = len(leading) > 1
        winner = decided(leading, classes, weights, counting.ties) if is_tie else leading[0]
    status = _status(n_valid, len(members), winner, first, total, counting)
    key = winner if winner is not None else min(leading, key=lambda key: classes[key])
    voters = classes[key]
    return Aggregated(
        value=members[voters[0]].text if status == "ok" else None,
        status=status,
        n_valid=n_valid,
        key=key if winner is not None else None,
        support=first / MICRO,
        confidence=first / total,
        margin=(first - second) / total,
        tie=is_tie,
        dissent=tuple(members[i].name for i, own in enumerate(keys) if own is not None and i not in voters)
        if len(voters) < n_valid
        else (),
        trace=trace,
    )


def weights_of(members: Sequence[MemberAnswer]) -> list[int]:
    """Return the weights of the members in millionths, of which each has at least one."""
    weights = [member.weight for member in members]
    if weights.count(1.0) == len(weights):
        return [MICRO] * len(weights)
    return [max(round(weight * MICRO), 1) for weight in weights]


def required_quorum(quorum: int | None, members: int) -> int:
    """Return how many members must vote: half of them, rounded up, by default."""
    return -(-members // 2) if quorum is None else quorum


def _status(n_valid: int, members: int, winner: str | None, support: int, total: int, counting: Counting) -> Status:
    if n_valid < required_quorum(counting.quorum, members):
        return "no_quorum"
    if (counting.rule == "majority" and 2 * support <= total) or (counting.rule == "unanimous" and support < total):
        return "rule_unmet"
    return "ok" if winner is not None else "tie"


def decided(
    tied: Sequence[str],
    classes: Mapping[str, Sequence[int]],
    weights: Sequence[int],
    ties: Sequence[str],
    *,
    is_last: bool = False,
) -> str | None:
    """Return which of tied answers comes first, or last; None where no rule of the list decides, or one abstains."""
    left = list(tied)
    for tie in ties:
        if tie == "abstain":
            return None
        order = _ORDERS[tie]
        ranks = {key: order(key, classes[key], weights) for key in left}
        wanted = max(ranks.values()) if is_last else min(ranks.values())
        left = [key for key in left if ranks[key] == wanted]
        if len(left) == 1:
            return left[0]
    return None


_Order = Callable[[str, "Sequence[int]", "Sequence[int]"], "tuple[int, str]"]

_ORDERS: Final[dict[str, _Order]] = {
    "weight": lambda _key, voters, weights: (-max(weights[voter] for voter in voters), ""),
    "priority": lambda _key, voters, _weights: (voters[0], ""),
    "hash": lambda key, _voters, _weights: (0, hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()),
}
"""Way to decide → what the winner has the least of: heaviest member, first member, hash of the key."""


def _linked(classes: dict[str, list[int]], prefix: str) -> dict[str, list[int]]:
    """Merge classes with similar keys, and those similar to these (single linkage); each has its first member's key."""
    merged: list[list[str]] = []
    for key in classes:
        near = [group for group in merged if any(_is_similar(key, other, prefix) for other in group)]
        for group in near[1:]:
            merged.remove(group)
        if near:
            near[0].extend([name for group in near[1:] for name in group] + [key])
        else:
            merged.append([key])
    return {group[0]: sorted(voter for key in group for voter in classes[key]) for group in merged}


def _is_similar(first: str, second: str, prefix: str) -> bool:
    """Say whether two keys are similar texts; one without a letter is a number, a date or a code, and equal or not."""
    if not (first.startswith(prefix) and second.startswith(prefix)):
        return False
    first, second = first[len(prefix) :], second[len(prefix) :]
    least = _SIMILAR_LONG if max(len(first), len(second)) >= _LONG_CHARS else _SIMILAR
    return fuzz.ratio(first, second, score_cutoff=100 * least) > 0 and _has_letter(first) and _has_letter(second)


def _has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))
