"""Vote: the answer that most members give, by weight; of whole answers, or leaf by leaf over a JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from vlmhyperbench_pipeline.counting import RULES, TIES, Counting, count
from vlmhyperbench_pipeline.extraction import EXTRACTS, extractor
from vlmhyperbench_pipeline.fields import FieldVote
from vlmhyperbench_pipeline.normalising import DATE_ORDERS, LOCALES, NORMALISERS, normaliser
from vlmhyperbench_pipeline.ranking import ballot, count_ranked
from vlmhyperbench_sdk.aggregation import (
    NO_CONTEXT,
    Aggregated,
    AggregationContext,
    MemberAnswer,
    OnMemberError,
    unusable,
)
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.params import check_choice

_TYPED: Final = frozenset({"number", "date", "json"})
"""Normalisers whose keys are values: equal or not, and never similar."""


class Vote:
    """Count the members' answers: extract → normalise → equal or similar → rule → quorum → ties.

    A member that failed, or whose answer has no vote in it, abstains; its weight stays in the total. The value is the
    whole answer of the first member that gave the winning vote.

    Raises:
        InvalidInput: a param is unknown or out of range, or what another one needs is missing.
    """

    def __init__(
        self,
        *,
        extract: str = "whole",
        choices: Sequence[str] = (),
        pattern: str | None = None,
        pointer: str | None = None,
        normalise: str = "text",
        locale: str = "en",
        date_order: str = "dmy",
        equivalence: str = "equal",
        rule: str = "plurality",
        quorum: int | None = None,
        ties: Sequence[str] = ("priority",),
        scope: str = "answer",
        array_keys: Mapping[str, str] | None = None,
        on_member_error: str = "skip",
    ) -> None:
        check_choice("extract", extract, EXTRACTS)
        self._extract = extractor(extract, choices=choices, pattern=pattern, pointer=pointer)
        check_choice("normalise", normalise, NORMALISERS)
        check_choice("locale", locale, LOCALES)
        check_choice("date_order", date_order, DATE_ORDERS)
        self._normalise = normaliser(normalise, locale=locale, date_order=date_order)
        check_choice("equivalence", equivalence, ("equal", "fuzzy"))
        check_choice("rule", rule, RULES)
        for tie in ties:
            check_choice("ties", tie, TIES)
        if quorum is not None and (isinstance(quorum, bool) or quorum < 1):
            raise InvalidInput(f"The quorum cannot be {quorum}.", cure="Give a whole number of members from 1 on.")
        self._counting = Counting(rule=rule, quorum=quorum, ties=tuple(ties), is_fuzzy=equivalence == "fuzzy")
        if equivalence == "fuzzy" and (normalise in _TYPED or rule == "ranked"):
            other = "rule: ranked" if rule == "ranked" else f"normalise: {normalise}"
            message = f"With equivalence: fuzzy similar texts are equal, and {other} counts none."
            raise InvalidInput(message, cure=f"Leave equivalence out, or {other.split(':')[0]}.")
        is_by_field = check_choice("scope", scope, ("answer", "field")) == "field"
        if is_by_field and rule == "ranked":
            raise InvalidInput("Fields of an answer have no ranking.", cure="Choose another rule, or scope: answer.")
        extracting = {"extract": extract != "whole", "choices": choices, "pattern": pattern, "pointer": pointer}
        unused = [param for param, given in extracting.items() if given]
        if is_by_field and unused:
            message = f"{unused[0]} has no effect with scope: field, where each field is a vote."
            raise InvalidInput(message, cure=f"Leave {', '.join(unused)} out, or choose scope: answer.")
        self._fields = FieldVote(self._counting, self._normalise, array_keys or {}) if is_by_field else None
        mode = check_choice("on_member_error", on_member_error, ("skip", "fail"))
        self._on_member_error: OnMemberError = "fail" if mode == "fail" else "skip"

    def aggregate(self, members: Sequence[MemberAnswer], context: AggregationContext = NO_CONTEXT) -> Aggregated:
        """Count the answers of the members."""
        votes = [member.text for member in members]
        if None in votes or not votes:
            problem = unusable(members, self._on_member_error)
            if problem is not None and problem.n_valid:
                keys = self._counted(members, votes, context).trace["keys"]
                return replace(problem, trace={**problem.trace, "keys": keys})
            if problem is not None:
                return problem
        return self._counted(members, votes, context)

    def _counted(
        self, members: Sequence[MemberAnswer], votes: list[str | None], context: AggregationContext
    ) -> Aggregated:
        if self._fields is not None:
            return self._fields.aggregate(members, context.schema)
        if self._extract is not None:
            extract = self._extract
            votes = [None if text is None else extract(text) for text in votes]
        if self._counting.rule == "ranked":
            ballots = [() if text is None else ballot(text, self._normalise) for text in votes]
            return count_ranked(members, ballots, self._counting)
        normalise = self._normalise
        return count(members, [None if text is None else normalise(text) for text in votes], self._counting)
