"""Conformance suite of aggregations: a plugin's test is one line, `check_aggregation(MyAggregation())`.

Covered: the same result for the same members, JSON traces, a value exactly with the status `ok`, members that failed or
are absent, hostile texts. Not covered: whether the rule itself is right; test that with answers of your own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from vlmhyperbench_sdk.aggregation import Aggregated, MemberAnswer
from vlmhyperbench_sdk.errors import PluginFailure
from vlmhyperbench_sdk.protocols import Aggregation

_TEXTS = ("yes", "", '{"a": 1}', "[" * 2000, "{{ question }}", "\u202e\x00\ud800", "9" * 5000)

SMALL_MEMBERS: tuple[tuple[MemberAnswer, ...], ...] = (
    (),
    (MemberAnswer(name="a", error="timeout"),),
    (MemberAnswer(name="a", text="yes"), MemberAnswer(name="b", text="no"), MemberAnswer(name="c", error="oom")),
    tuple(MemberAnswer(name=f"m{number}", text=text) for number, text in enumerate(_TEXTS)),
)
"""Members with nothing, a failure, a disagreement, and texts that nobody should answer."""


def check_aggregation(aggregation: Aggregation, *, members: Sequence[Sequence[MemberAnswer]] = ()) -> None:
    """Check that an aggregation fulfils its contract.

    Args:
        aggregation: an instance, constructed as by the platform.
        members: answers of real members, checked beside the small ones.

    Raises:
        PluginFailure: it violates the contract; the message lists every violation.
    """
    breaches = [breach for answers in (*SMALL_MEMBERS, *members) for breach in _breaches(aggregation, answers)]
    if breaches:
        name = type(aggregation).__name__
        message = f"The aggregation {name} breaks its contract: {'; '.join(breaches)}."
        raise PluginFailure(message, cure="Correct it; the docstring of Aggregation states its contract.")


def _breaches(aggregation: Aggregation, members: Sequence[MemberAnswer]) -> Iterator[str]:
    label = f"with {len(members)} members"
    first, again = _aggregate(aggregation, members), _aggregate(aggregation, members)
    if isinstance(first, str):
        yield f"{label}: {first}"
        return
    if first != again:
        yield f"{label}: the second time it is another result"
    if (first.value is not None) != (first.status == "ok"):
        yield f"{label}: a value belongs to the status `ok` alone"
    if not 0 <= first.n_valid <= len(members):
        yield f"{label}: {first.n_valid} members cannot have valid answers"
    try:
        json.dumps(first.trace, allow_nan=False)
    except (TypeError, ValueError) as error:
        yield f"{label}: the trace is not JSON ({error})"


def _aggregate(aggregation: Aggregation, members: Sequence[MemberAnswer]) -> Aggregated | str:
    try:
        return aggregation.aggregate(members)
    except Exception as error:  # noqa: BLE001 -- the plugin's own code runs here, and may raise anything
        return f"aggregate raises {type(error).__name__} ({error})"
