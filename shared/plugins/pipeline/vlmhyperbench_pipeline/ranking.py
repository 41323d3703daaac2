"""Ranked votes: each member lists answers, the best first; the weakest answer is struck until one has the majority."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench_pipeline.counting import MICRO, Counting, required_quorum, weights_of
from vlmhyperbench_pipeline.json_votes import read_json
from vlmhyperbench_pipeline.normalising import Normalise
from vlmhyperbench_sdk.aggregation import Aggregated, MemberAnswer

Ballot = Sequence["tuple[str, str]"]
"""Answers as (key, text), the best first, none twice; empty abstains."""


def ballot(text: str, normalise: Normalise) -> Ballot:
    """Read a ranking: a JSON array of texts, or one answer a line."""
    parsed = read_json(text) if text.lstrip().startswith(("[", "```")) else None
    items = parsed[0] if parsed is not None and isinstance(parsed[0], list) else text.splitlines()
    ranked: dict[str, str] = {}
    for item in items:
        key = normalise(item) if isinstance(item, str) else None
        if key is not None:
            ranked.setdefault(key, str(item).strip())
    return list(ranked.items())


def count_ranked(members: Sequence[MemberAnswer], ballots: Sequence[Ballot], counting: Counting) -> Aggregated:
    """Count by instant runoff: each ballot is for its best answer that is left; the total holds abstentions too.

    Of equally weak answers the one is struck that members name last, the first member's order counting first.
    """
    weights = weights_of(members)
    n_valid = sum(bool(ballot) for ballot in ballots)
    texts: dict[str, str] = {}
    for own in ballots:
        for key, text in own:
            texts.setdefault(key, text)
    if not texts:
        return Aggregated(value=None, status="no_valid", n_valid=0)
    left, rounds, is_tie = list(texts), list[dict[str, float]](), False
    while True:
        sums = dict.fromkeys(left, 0)
        tops = [next((key for key, _ in own if key in sums), None) for own in ballots]
        for top, weight in zip(tops, weights, strict=True):
            if top is not None:
                sums[top] += weight
        rounds.append({key: support / MICRO for key, support in sums.items()})
        order = sorted(sums.values(), reverse=True)
        if 2 * order[0] > sum(order) or len(left) == 1:
            break
        weakest = [key for key in left if sums[key] == order[-1]]
        is_tie = is_tie or len(weakest) == len(left)
        left.remove(weakest[-1])
    first, second, total = order[0], order[1] if len(order) > 1 else 0, sum(weights)
    winner = next(key for key in left if sums[key] == first)
    status = "ok" if n_valid >= required_quorum(counting.quorum, len(members)) else "no_quorum"
    return Aggregated(
        value=texts[winner] if status == "ok" else None,
        status="ok" if status == "ok" else "no_quorum",
        n_valid=n_valid,
        key=winner,
        support=first / MICRO,
        confidence=first / total,
        margin=(first - second) / total,
        tie=is_tie,
        dissent=tuple(
            member.name for member, own, top in zip(members, ballots, tops, strict=True) if own and top != winner
        ),
        trace={"rounds": rounds},
    )
