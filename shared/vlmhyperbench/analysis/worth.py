"""Whether an ensemble was worth it, in three sentences: quality, time, memory; no claim goes beyond an interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vlmhyperbench.analysis.ensemble_costs import GB, Costs
from vlmhyperbench.analysis.ensembles import Uplift

Worth = Literal["better", "worse", "not_shown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the numbers show about an ensemble against its best member."""

    worth: Worth
    quality: str
    time: str
    memory: str

    @property
    def text(self) -> str:
        return f"{self.quality} {self.time} {self.memory}"


def verdict(uplift: Uplift, costs: Costs, *, who: str = "The ensemble") -> Verdict:
    """Return the three sentences; `who` is compared with its best member."""
    worth: Worth = "better" if uplift.is_shown else "worse" if uplift.is_refuted else "not_shown"
    gain = uplift.uplift if worth == "better" else None
    return Verdict(
        worth=worth,
        quality=_quality(uplift, worth, who),
        time=_cost(
            "compute per answer", "s", costs.seconds, costs.best_seconds, _per(costs.uplift_per_s, gain, "extra second")
        ),
        memory=_cost(
            "peak memory with every model loaded",
            "GB",
            _in_gb(costs.bytes),
            _in_gb(costs.best_bytes),
            _per(costs.uplift_per_gb, gain, "extra gigabyte"),
        ),
    )


def _quality(uplift: Uplift, worth: Worth, who: str) -> str:
    said = {
        "better": "better than its best member",
        "worse": "worse than its best member",
        "not_shown": "not shown to be better or worse than its best member",
    }[worth]
    low, high = uplift.low, uplift.high
    none = "the same in every document" if uplift.is_constant else "no interval"
    ends = none if low is None or high is None else f"95 % {low:+.3f} to {high:+.3f}"
    size = f"{uplift.samples} samples of {uplift.units} documents"
    return f"{who} is {said}, {uplift.best}: uplift {uplift.uplift:+.3f} ({ends}, {size})."


def _cost(what: str, unit: str, own: float | None, best: float | None, per: str) -> str:
    if own is None or best is None:
        return f"Its {what} cannot be compared: it was not measured for both."
    ratio = f", {own / best:.1f} times as much" if best > 0 else ""
    return f"Its {what} is {own:.3g} {unit}, the best member's {best:.3g} {unit}{ratio}{per}."


def _per(ratio: float | None, gain: float | None, extra: str) -> str:
    return f"; that is {ratio:+.3g} for each {extra}" if ratio is not None and gain is not None else ""


def _in_gb(size: int | None) -> float | None:
    return None if size is None else size / GB
