"""Template merge: a template over the question, earlier steps and the members' answers gives the answer."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench_pipeline.bounded import BoundedTemplate
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

VARIABLES = frozenset({"input", "steps", "members"})


class TemplateMerge:
    """Render `template` over `input.question`, `steps.ID` and `members` (each with name, text, error and weight).

    Where the pipeline names a model that merges, the result is what that model is asked; else it is the answer.

    Raises:
        InvalidInput: it is no template, or does what no template may.
    """

    def __init__(self, *, template: str, on_member_error: str = "skip") -> None:
        self._template = BoundedTemplate(template, variables=VARIABLES)
        self._on_member_error: OnMemberError = (
            "fail" if check_choice("on_member_error", on_member_error, ("skip", "fail")) == "fail" else "skip"
        )

    def aggregate(self, members: Sequence[MemberAnswer], context: AggregationContext = NO_CONTEXT) -> Aggregated:
        """Render the template with the answers."""
        problem = unusable(members, self._on_member_error)
        if problem is not None:
            return problem
        n_valid = sum(member.text is not None for member in members)
        values = {
            "input": {"question": context.question},
            "steps": dict(context.steps),
            "members": [
                {"name": member.name, "text": member.text, "error": member.error, "weight": member.weight}
                for member in members
            ],
        }
        try:
            value = self._template.render(values)
        except InvalidInput as error:
            return Aggregated(value=None, status="invalid", n_valid=n_valid, trace={"problem": error.message})
        return Aggregated(value=value, status="ok", n_valid=n_valid)
