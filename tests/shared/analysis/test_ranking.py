"""Runs are ranked on the answers that all of them have."""

from __future__ import annotations

from collections.abc import Sequence

import polars

from vlmhyperbench.analysis.comparison import Measured
from vlmhyperbench.analysis.ranking import common_answers, rank_measured
from vlmhyperbench_text_metrics.exact_match import ExactMatch


def _measured(values: Sequence[float | None]) -> Measured:
    """One answer per document."""
    metric, keys = ExactMatch(), [f"s{no}" for no in range(len(values))]
    frame = polars.DataFrame(
        {
            "key": keys,
            "repeat": [0] * len(values),
            "turn": [0] * len(values),
            "cluster": keys,
            "value": polars.Series(list(values), dtype=polars.Float64),
        }
    )
    description = metric.description
    return Measured(
        key=description.name,
        label=description.title,
        definition="",
        description=description,
        combine=metric.combine,
        frame=frame,
    )


def test_answers_that_one_run_lacks_count_for_none() -> None:
    runs = [_measured([1.0, 1.0, 0.0]), _measured([0.0, 0.0, None])]
    assert common_answers([run.frame for run in runs])["document"].to_list() == ["s0", "s1"]
    ranking = rank_measured(runs, direction="higher")
    assert ranking is not None
    assert (ranking.answers, ranking.documents) == (2, 2)
    assert [(spread.rank, spread.low, spread.high) for spread in ranking.spreads] == [(1, 1, 1), (2, 2, 2)]


def test_what_cannot_be_ranked_has_no_ranking() -> None:
    run = _measured([1.0, 0.0])
    assert rank_measured([run], direction="higher") is None
    assert rank_measured([run, _measured([None, None])], direction="higher") is None
    assert rank_measured([_measured([1.0]), _measured([0.0])], direction="higher") is None
