"""An aggregation that takes long, by dotted path, so that a test can end a job in the middle of it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from vlmhyperbench_sdk.aggregation import Aggregated, AggregationContext, MemberAnswer

SECONDS_OF_A_SAMPLE = 60.0


class Slow:
    """Takes the first answer, a minute later."""

    def aggregate(
        self,
        members: Sequence[MemberAnswer],
        context: AggregationContext,
    ) -> Aggregated:
        """Return the first answer."""
        time.sleep(SECONDS_OF_A_SAMPLE)
        return Aggregated(value=members[0].text, status="ok", n_valid=len(members))
