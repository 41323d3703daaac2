"""Ranked votes: each member lists answers, the best first; the weakest answer is struck until one has the majority."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench_pipeline.counting import MICRO, Counting, decided, required_quorum, weights_of
from vlmhyperbench_pipeline.json_votes import read_json
from vlmhyperbench_pipeline.normalising import Normalise
from vlmhyperbench_sdk.aggregation import Aggregated, MemberAnswer, Status
from vlmhyperbench_sdk.types import JsonValue

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

    Answers that are nobody's best one are struck together. Of others that are equally weak, the list of ties says which
    comes last and is struck; where it does not, there is no winner.
    """
    weights = weights_of(members)
    n_valid = sum(bool(ballot) for ballot in ballots)
    texts: dict[str, str] = {}
    for own in ballots:
        for key, text in own:
            texts.setdefault(key, text)
    keys: list[JsonValue] = [own[0][0] if own else None for own in ballots]
    if not texts:
        return Aggregated(value=None, status="no_valid", n_valid=0, trace={"keys": keys})
    left, rounds, is_tie = list(texts), list[JsonValue](), False
    while True:
        voters: dict[str, list[int]] = {key: [] for key in left}
        tops = [next((key for key, _ in own if key in voters), None) for own in ballots]
        for index, top in enumerate(tops):
            if top is not None:
                voters[top].append(index)
        sums = {key: sum(weights[voter] for voter in own) for key, own in voters.items()}
        rounds.append({key: support / MICRO for key, support in sums.items()})
        order = sorted(sums.values(), reverse=True)
        leader = next(key for key in left if sums[key] == order[0])
        winner: str | None = leader
        if 2 * order[0] > sum(order) or len(left) == 1:
            break
        weakest = [key for key in left if sums[key] == order[-1]]
        if order[-1]:
            is_tie = is_tie or len(weakest) > 1
            struck = weakest[0] if len(weakest) == 1 else decided(weakest, voters, weights, counting.ties, is_last=True)
            if struck is None:
                winner = None
                break
            left.remove(struck)
        else:
            left = [key for key in left if sums[key]]
    first, second, total = order[0], order[1] if len(order) > 1 else 0, sum(weights)
    is_quorate = n_valid >= required_quorum(counting.quorum, len(members))
    status: Status = "no_quorum" if not is_quorate else "tie" if winner is None else "ok"
    return Aggregated(
        value=texts[leader] if status == "ok" else None,
        status=status,
        n_valid=n_valid,
        key=winner,
        support=first / MICRO,
        confidence=first / total,
        margin=(first - second) / total,
        tie=is_tie,
        dissent=tuple(
            member.name for member, own, top in zip(members, ballots, tops, strict=True) if own and top != leader
        ),
        trace={"keys": keys, "rounds": rounds},
    )
