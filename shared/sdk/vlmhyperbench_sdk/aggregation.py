"""What an aggregation takes and returns: the answers of a pipeline's members become one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonObject

Status = Literal["ok", "no_valid", "no_quorum", "rule_unmet", "tie", "member_failed", "invalid"]
"""`ok` has a value. `no_valid`: no member has an answer that counts; `no_quorum`: too few have; `rule_unmet`: the best
answer has not the support that the rule asks for; `tie`: no rule of the list decides; `member_failed`: a member failed
where that is not allowed; `invalid`: the merged answer is not what is asked for."""

OnMemberError = Literal["skip", "fail"]

_MAX_WEIGHT = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAnswer:
    """What one member answered: a text, or the reason why there is none.

    Raises:
        InvalidInput: it has both or neither, or the weight is not a positive number up to a million.
    """

    name: str
    text: str | None = None
    error: str | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        if (self.text is None) == (self.error is None):
            raise InvalidInput(f"The member {self.name} needs either text or error.", cure="Give exactly one of them.")
        if not (math.isfinite(self.weight) and 0 < self.weight <= _MAX_WEIGHT):
            message = f"The weight of the member {self.name} cannot be {self.weight}."
            raise InvalidInput(message, cure="Give a number above 0, at most 1,000,000.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregationContext:
    """What is known beside the members' answers."""

    question: str = ""
    steps: Mapping[str, str] = field(default_factory=dict)
    """Earlier step → its answer."""
    schema: JsonObject | None = None
    """JSON Schema of the answer that is asked for."""


NO_CONTEXT = AggregationContext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregated:
    """What the answers of the members came to."""

    value: str | None
    """The one answer; None unless the status is `ok`."""
    status: Status
    n_valid: int
    """Members whose answer counts; all others failed or abstained."""
    key: str | None = None
    """What equal answers have in common, in a vote."""
    support: float | None = None
    """Weight of the members that gave the leading answer, in a vote."""
    confidence: float | None = None
    """Support by the weight of all members, abstaining ones too."""
    margin: float | None = None
    """What the leading answer has more than the second, by the weight of all members."""
    tie: bool = False
    """Whether another answer had the same support, however it was decided."""
    dissent: tuple[str, ...] = ()
    """Members that gave another answer, in their order."""
    trace: JsonObject = field(default_factory=dict)
    """How the value was made, in JSON."""


def unusable(members: Sequence[MemberAnswer], on_member_error: OnMemberError) -> Aggregated | None:
    """Return what is left to say where a member failed that must not, or where none has an answer; else None."""
    n_valid = sum(member.text is not None for member in members)
    failed = {member.name: member.error for member in members if member.error is not None}
    if failed and on_member_error == "fail":
        return Aggregated(value=None, status="member_failed", n_valid=n_valid, trace={"failed": failed})
    if not n_valid:
        return Aggregated(value=None, status="no_valid", n_valid=0, trace={"failed": failed})
    return None
