"""What a handler's end means for its job, as its runner reads it."""

from __future__ import annotations

from collections.abc import Awaitable

from vlmhyperbench.domain.outcomes import Outcome, outcome_of


async def ended(work: Awaitable[Outcome]) -> Outcome:
    """Await a handler and return its outcome, whether it was returned or raised; a lost claim is raised on."""
    try:
        return await work
    except Exception as error:
        outcome = outcome_of(error)
        if outcome is None:
            raise
        return outcome
