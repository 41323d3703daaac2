"""Concat: the members' answers one after the other, in the order of the pipeline."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench_pipeline.bounded import BoundedTemplate
from vlmhyperbench_sdk.aggregation import NO_CONTEXT, Aggregated, AggregationContext, MemberAnswer, unusable
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.params import check_choice


class Concat:
    """Join the answers; the answer of a single member stays as it is.

    `header` is a template before each answer, which sees `name`, `number` (from 1) and `weight`. `on_error` says what a
    failed member is: `skip` leaves it out, `mark` writes its name and error, `fail` fails the whole.

    Raises:
        InvalidInput: `on_error` is unknown, or the header is no template.
    """

    def __init__(self, *, separator: str = "\n\n", header: str | None = None, on_error: str = "skip") -> None:
        self._separator = separator
        self._header = BoundedTemplate(header, variables={"name", "number", "weight"}) if header is not None else None
        self._on_error = check_choice("on_error", on_error, ("skip", "mark", "fail"))

    def aggregate(self, members: Sequence[MemberAnswer], context: AggregationContext = NO_CONTEXT) -> Aggregated:
        """Join the answers of the members."""
        del context
        problem = unusable(members, "fail" if self._on_error == "fail" else "skip")
        if problem is not None:
            return problem
        n_valid = sum(member.text is not None for member in members)
        try:
            parts = [
                self._part(member, number)
                for number, member in enumerate(members, start=1)
                if member.text is not None or self._on_error == "mark"
            ]
        except InvalidInput as error:
            return Aggregated(value=None, status="invalid", n_valid=n_valid, trace={"problem": error.message})
        value = self._separator.join(parts) if len(members) > 1 else members[0].text
        joined = [member.name for member in members if member.text is not None or self._on_error == "mark"]
        return Aggregated(value=value, status="ok", n_valid=n_valid, trace={"joined": joined})

    def _part(self, member: MemberAnswer, number: int) -> str:
        text = member.text if member.text is not None else f"[{member.name} failed: {member.error}]"
        if self._header is None:
            return text
        return self._header.render({"name": member.name, "number": number, "weight": member.weight}) + text
