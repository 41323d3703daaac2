"""What each member is worth: the result with all members against the result without one; no model is asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vlmhyperbench.analysis import stats
from vlmhyperbench.analysis.ensembles import Answers, Ensemble, oriented
from vlmhyperbench.analysis.results import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberValue:
    """The result with all members against the result without one."""

    name: str
    samples: int
    """Number of samples for which both results have a value."""
    changed: int
    """Number of samples whose result is another text without the member."""
    value: float | None
    """How much better the result is with the member; below 0, it harms. None without a sample."""
    interval: Interval | None


def member_values(ensemble: Ensemble, without: Mapping[str, Answers], *, seed: int = 0) -> tuple[MemberValue, ...]:
    """Return what each member adds.

    Args:
        ensemble: The answers.
        without: Member → the results that the others give, combined again and scored again.
        seed: Seed of the bootstrap.
    """
    named = [(member.name, without.get(member.name)) for member in ensemble.members]
    return tuple(_value_of(ensemble, name, others, seed) for name, others in named if others is not None)


def _value_of(ensemble: Ensemble, name: str, others: Answers, seed: int) -> MemberValue:
    result = ensemble.result
    both = np.flatnonzero(np.isfinite(result.values) & np.isfinite(others.values))
    documents = np.asarray(ensemble.clusters)[both]
    first, second = (stats.by_unit(answers.statistics[both], documents) for answers in (others, result))
    compared = stats.compare_paired(first, second, ensemble.estimator, seed=seed) if len(both) else None
    return MemberValue(
        name=name,
        samples=len(both),
        changed=sum(before != after for before, after in zip(result.texts, others.texts, strict=True)),
        value=ensemble.sign * compared.difference if compared else None,
        interval=oriented(compared.interval, ensemble.sign) if compared else None,
    )
