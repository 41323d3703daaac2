"""Builders of ensembles for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from vlmhyperbench.analysis.ensembles import Answers, Ensemble


def answers(name: str, values: Sequence[float], texts: Sequence[str | None] = ()) -> Answers:
    """Build answers of a metric that is a mean; NaN is no value."""
    array = np.array(values, dtype=np.float64)
    given = texts or [f"{name}{sample}" for sample in range(len(values))]
    statistics = np.column_stack([array, np.ones(len(array))])
    return Answers(name=name, values=array, statistics=statistics, texts=given)


def ensemble(result: Answers, *members: Answers, direction: Literal["higher", "lower"] = "higher") -> Ensemble:
    """Build an ensemble whose samples are documents of their own."""
    clusters = [f"page {sample}" for sample in range(len(result.values))]
    return Ensemble(result=result, members=members, clusters=clusters, direction=direction)
