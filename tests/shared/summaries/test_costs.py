"""What a run's requests used of their target."""

from __future__ import annotations

import polars

from tests.shared.reports.builders import fact, facts_frame
from vlmhyperbench.summaries.costs import usage_of

ROWS = [
    fact(0, "yes", "yes"),
    fact(1, "no", "yes"),
    fact(2, None, "yes", prompt_tokens=None, completion_tokens=None),
    fact(3, "yes", "yes", prompt_tokens=10**6),
]


def test_cached_tokens_and_images_are_counted_where_they_are_recorded() -> None:
    rows = facts_frame(ROWS).with_columns(cached_tokens=polars.Series([40, None, 7, 9]))
    usage = usage_of(rows, window_s=None)
    assert (usage.answers, usage.cached_tokens, usage.images) == (3, 49, 3)
    assert usage_of(rows.drop("cached_tokens", "images"), window_s=None).images is None
