"""Why a model was not loaded: a table of need, have and shortfall, and which knobs would change it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from vlmhyperbench.domain.fallbacks import NoFit, Shortfall
from vlmhyperbench.errors import DoesNotFit
from vlmhyperbench_sdk.types import JsonObject, JsonValue

SHORTAGE: Final = "shortage"
"""Key of the facts in the outcome of a job that was refused."""
ALLOW_LOSSY: Final = "limits.allow_lossy"
MODE: Final = "execution_mode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """What a person may change."""

    name: str
    """Path of a value of the run, name of a parameter of the engine, or a word for what is no parameter."""
    fixes: bool
    """Whether it is known to make it fit; otherwise it makes it smaller."""
    to: str | None = None
    """The value that it should have; None: a smaller one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRefusal:
    """The facts of a refusal."""

    model: str
    rows: Sequence[Shortfall]
    knobs: Sequence[Knob] = ()
    has_run_out: bool = False
    """Whether it fitted by its estimate, but ran out of memory while it answered."""

    @property
    def facts(self) -> JsonObject:
        """The facts, as they are stored with the failure and shown."""
        rows: list[JsonValue] = [
            {
                "memory": row.memory,
                "need_bytes": row.need,
                "have_bytes": row.have,
                "shortfall_bytes": max(row.missing, 0),
            }
            for row in self.rows
        ]
        knobs: list[JsonValue] = [{"name": knob.name, "to": knob.to, "fixes": knob.fixes} for knob in self.knobs]
        return {"model": self.model, "rows": rows, "knobs": knobs, "has_run_out": self.has_run_out}

    @property
    def message(self) -> str:
        """The table in one sentence."""
        rows = "; ".join(
            f"{row.memory}: needs {_gib(row.need)}, has {_gib(row.have)}, lacks {_gib(max(row.missing, 0))}"
            for row in self.rows
        )
        if self.has_run_out:
            return f"The model {self.model} ran out of memory again on a smaller setting; by its estimate, {rows}."
        return f"The model {self.model} does not fit, whatever is given up: {rows}."

    @property
    def cure(self) -> str:
        """What may be changed, what surely helps first."""
        sure = [knob for knob in self.knobs if knob.fixes]
        others = [knob.name for knob in self.knobs if not knob.fixes]
        told = [f"Set {knob.name}: {knob.to}." for knob in sure]
        change = f"change {', '.join(others)}, " if others else ""
        return " ".join([*told, f"Choose a smaller or more quantised model, {change}or free memory."])


def knobs_of(found: NoFit, names: Mapping[str, Sequence[str]]) -> tuple[Knob, ...]:
    """Return what would change a refusal: what surely helps, then the parameters of the engine that need less.

    Args:
        found: The smallest settings that were tried.
        names: Meaning → parameters of the engine.
    """
    sure = (Knob(name=ALLOW_LOSSY, to="true", fixes=True),) if found.fits_lossy else ()
    return sure + engine_knobs(names)


def engine_knobs(names: Mapping[str, Sequence[str]]) -> tuple[Knob, ...]:
    """Return the parameters of the engine that need less where they are smaller."""
    return tuple(Knob(name=name, fixes=False) for parameters in names.values() for name in sorted(parameters))


def named_by(error: DoesNotFit, names: Mapping[str, str]) -> DoesNotFit:
    """Return a refusal whose knobs are called as who reads it sets them, such as a flag of a command."""
    knobs = cast("list[JsonObject]", error.facts["knobs"])
    named: list[JsonValue] = [{**knob, "name": names.get(str(knob["name"]), knob["name"])} for knob in knobs]
    cure = error.cure or ""
    for name, flag in names.items():
        cure = cure.replace(f"Set {name}: true.", f"Give {flag}.")
    return DoesNotFit(error.message, cure=cure, facts={**error.facts, "knobs": named})


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:,.2f} GiB"
