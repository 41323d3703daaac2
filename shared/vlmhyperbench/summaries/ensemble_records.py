"""A pipeline against its members as a summary stores it: plain records that are cheap to import."""

from __future__ import annotations

from dataclasses import dataclass

from vlmhyperbench.analysis.agreement import Alpha
from vlmhyperbench.analysis.calibration import Calibration
from vlmhyperbench.analysis.ensemble_costs import Bar, Costs
from vlmhyperbench.analysis.ensembles import Oracle, Uplift
from vlmhyperbench.analysis.member_values import MemberValue
from vlmhyperbench.analysis.worth import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberCost:
    """What asking one model of the pipeline took."""

    stage: str
    role: str
    model: str
    answers: int
    """Number of samples for which it was asked."""
    failed: int
    reused: int
    seconds: float | None
    """Mean compute time of its requests; None where none has a time."""
    peak_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleSummary:
    """A pipeline against the members of a stage; what compares them is None where they have no scores."""

    pipeline: str
    stage: str
    """The stage whose answer and members are compared: the last one in which several answer."""
    metric: str
    """Label of the metric by which members are compared; empty without one."""
    unscored: str
    """Why members have no scores; empty where they have."""
    asked: tuple[MemberCost, ...]
    bars: tuple[Bar, ...]
    """Mean time by step."""
    latency_p50_s: float | None
    """Median of the compute-only critical path."""
    latency_p90_s: float | None
    is_last: bool = True
    """Whether the stage's answers are those of the pipeline."""
    untimed: int = 0
    """Number of samples without a part in the times, because that of a model which was asked is unknown."""
    agreement: Alpha | None = None
    calibration: Calibration | None = None
    uplift: Uplift | None = None
    oracles: tuple[Oracle, ...] = ()
    values: tuple[MemberValue, ...] = ()
    costs: Costs | None = None
    verdict: Verdict | None = None
