"""Whether the models of a pipeline stay loaded together, or are loaded one after the other. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from vlmhyperbench.domain.fallbacks import Fallback, Shortfall
from vlmhyperbench.domain.refusals import ALLOW_LOSSY, MODE, Knob, MemoryRefusal
from vlmhyperbench_sdk.types import JsonObject, JsonValue

ExecutionMode: TypeAlias = Literal["persistent", "sequential", "auto"]
RUNG: Final = "without an optional member"
SEQUENTIAL_RUNG: Final = "sequential mode"
Memory: TypeAlias = Literal["accelerator", "machine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Residency:
    """How a target lives beside others."""

    keeps: frozenset[str] = frozenset()
    """Digests of targets that stay loaded beside it."""
    is_sequential: bool = False
    """Whether idle others are unloaded before it is loaded, and it after its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How the models of a pipeline are loaded, and why."""

    asked: ExecutionMode
    mode: Literal["persistent", "sequential"]
    why: str
    need_bytes: int | None
    """Of all models together; None if one of them is not known."""
    have_bytes: int
    dropped: tuple[str, ...] = ()
    """Optional models that are left out so that the others fit together."""
    steps: tuple[Fallback, ...] = field(default=())
    """What was given up."""

    @property
    def recorded(self) -> JsonObject:
        """What the run manifest states."""
        dropped: list[JsonValue] = list(self.dropped)
        return {
            "asked": self.asked,
            "mode": self.mode,
            "why": self.why,
            "need_bytes": self.need_bytes,
            "have_bytes": self.have_bytes,
            "dropped": dropped,
        }


def choose_execution(
    asked: ExecutionMode,
    needs: Mapping[str, int | None],
    have: int,
    *,
    name: str,
    memory: Memory,
    optional: Collection[str] = (),
    allow_lossy: bool = False,
) -> Execution | MemoryRefusal:
    """Choose the mode; `persistent` that does not fit drops optional models where that is allowed, or is refused.

    Args:
        asked: What the pipeline states.
        needs: Model → bytes that it needs, with its margin; None if that is not known.
        have: Bytes that the pipeline may use.
        name: The pipeline.
        memory: Which memory that is.
        optional: Models without which the pipeline still answers, the first to be dropped at the front.
        allow_lossy: Whether they may be dropped.
    """
    known = [need for need in needs.values() if need is not None]
    total = sum(known) if len(known) == len(needs) else None
    told = f"together they need {_gib(total)} of {_gib(have)}" if total is not None else "the need of one is not known"
    fits = total is not None and total <= have

    def chosen(mode: Literal["persistent", "sequential"], why: str, *steps: Fallback, less: int = 0) -> Execution:
        need = total - less if total is not None else None
        dropped = tuple(step.before for step in steps if step.rung == RUNG)
        return Execution(
            asked=asked, mode=mode, why=why, need_bytes=need, have_bytes=have, dropped=dropped, steps=steps
        )

    if asked == "sequential":
        return chosen("sequential", "the pipeline states it")
    if fits or len(needs) == 1:
        return chosen("persistent", told if asked == "auto" else "the pipeline states it")
    if asked == "auto":
        step = Fallback(rung=SEQUENTIAL_RUNG, before="persistent", after="sequential")
        return chosen("sequential", told, step)
    if total is None:
        return chosen("persistent", f"the pipeline states it; {told}")
    if allow_lossy and (dropped := _dropped(optional, {model: needs[model] or 0 for model in optional}, total - have)):
        steps = [Fallback(rung=RUNG, before=model, after="dropped", is_lossy=True) for model in dropped]
        less = sum(needs[model] or 0 for model in dropped)
        return chosen("persistent", "the pipeline states it", *steps, less=less)
    can_drop = sum(needs[model] or 0 for model in optional) >= total - have
    knobs = [Knob(name=MODE, to="auto or sequential", fixes=True)]
    if can_drop and not allow_lossy:
        knobs.append(Knob(name=ALLOW_LOSSY, to="true", fixes=True))
    return MemoryRefusal(model=name, rows=(Shortfall(memory=memory, need=total, have=have),), knobs=tuple(knobs))


def _dropped(optional: Collection[str], needs: Mapping[str, int], lacking: int) -> list[str]:
    """Return models that give as much as is lacking, from the front and none in vain; none if all give too little."""
    dropped = list[str]()
    for model in optional:
        if sum(needs[each] for each in dropped) >= lacking:
            break
        dropped.append(model)
    freed = sum(needs[each] for each in dropped)
    if freed < lacking:
        return []
    for model in tuple(dropped):
        if freed - needs[model] >= lacking:
            dropped.remove(model)
            freed -= needs[model]
    return dropped


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:,.2f} GiB"
