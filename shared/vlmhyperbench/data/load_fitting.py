"""Make a load smaller, step by step, until it fits: the ladder of fallbacks over the parameters of an engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache

from vlmhyperbench.domain.fallbacks import (
    Cache,
    Fallback,
    LadderLimits,
    LoadBytes,
    LoadSettings,
    MachineMemory,
    NoFit,
    fit,
)
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import FittingBackend, LoadKnobs
from vlmhyperbench_sdk.types import JsonObject, JsonValue

_CACHES: tuple[Cache, ...] = ("f16", "q8_0", "q4_0")


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedLoad:
    """The parameters with which a target is loaded, and what was given up for them."""

    engine_params: JsonObject
    steps: tuple[Fallback, ...] = ()
    settings: LoadSettings | None = None
    """None for a target whose engine has no ladder."""

    @property
    def is_lossy(self) -> bool:
        """Whether what was given up may have cost quality."""
        return any(step.is_lossy for step in self.steps)

    @property
    def recorded(self) -> list[JsonValue]:
        """The steps, as the run manifest states them."""
        return [dict(asdict(step)) for step in self.steps]


class LoadLadder:
    """The ladder of one target on one machine."""

    def __init__(
        self,
        adapter: FittingBackend,
        request: LoadRequest,
        measure: Callable[[], MachineMemory],
        *,
        allow_lossy: bool = False,
    ) -> None:
        """Read what can be changed.

        Args:
            adapter: The adapter of the target.
            request: How it is loaded if everything fits.
            measure: Returns the memory that it may use; called when it is fitted, after others were unloaded.
            allow_lossy: Whether quality may be given up too.

        Raises:
            InvalidInput: a parameter is unknown or out of range, or a file is no model.
            NotFound: a file is missing.
        """
        self._adapter, self._request, self._measure = adapter, request, measure
        self.allow_lossy = allow_lossy
        self._knobs = adapter.knobs(request)
        self._wanted = _settings(self._knobs) if self._knobs is not None else LoadSettings(context_tokens=0)
        self._needs: Callable[[LoadSettings], LoadBytes] = cache(self._need)

    def fit(self) -> FittedLoad:
        """Return the first parameters that fit; where none do, those that need least if the engine may still start.

        Raises:
            InvalidInput: nothing is left to give up; code `does_not_fit`, with need, have and shortfall.
        """
        return self._fit(self._wanted, self._measure(), ())

    def after_out_of_memory(self, failed: FittedLoad) -> FittedLoad | None:
        """Return the next rung below a load that ran out of memory; None if there is none."""
        if failed.settings is None:
            return None
        need = self._needs(failed.settings).with_margin
        machine = self._measure()
        tighter = MachineMemory(
            devices=tuple(min(size, max(need.device - 1, 0)) for size in machine.devices),
            host=machine.host if need.device else min(machine.host, max(need.host - 1, 0)),
        )
        try:
            fitted = self._fit(failed.settings, tighter, failed.steps)
        except InvalidInput:
            return None
        return fitted if fitted.settings != failed.settings else None

    def smallest(self) -> LoadBytes | None:
        """Return the least that a load may need without a loss of quality, without a margin; None if unknown."""
        if self._knobs is None:
            return None
        nothing = MachineMemory(devices=(), host=0)
        found = fit(self._wanted, nothing, self._limits, self._needs)
        return self._needs(found.settings)

    @property
    def _limits(self) -> LadderLimits:
        layers = self._knobs.layers if self._knobs is not None else 0
        # What the prompts of the task need is not known here, so the context is never cut.
        return LadderLimits(min_context_tokens=self._wanted.context_tokens, layers=layers, may_be_sequential=False)

    def _fit(self, wanted: LoadSettings, machine: MachineMemory, before: tuple[Fallback, ...]) -> FittedLoad:
        if self._knobs is None:
            return FittedLoad(engine_params=self._request.engine_params)
        found = fit(wanted, machine, self._limits, self._needs, allow_lossy=self.allow_lossy)
        if isinstance(found, NoFit):
            self._refuse(found, machine)
        steps = (*before, *found.steps)
        return FittedLoad(engine_params=self._params(found.settings), steps=steps, settings=found.settings)

    def _refuse(self, found: NoFit, machine: MachineMemory) -> None:
        """Refuse unless it fits without the margin, since an estimate may be too high by it."""
        bare = self._needs(found.settings)
        if machine.holds(bare, found.settings):
            return
        rows = "; ".join(
            f"{row.memory}: needs {_gib(row.need)}, has {_gib(row.have)}, lacks {_gib(row.missing)}"
            for row in found.rows
        )
        names = sorted(name for names in self._knobs.names.values() for name in names) if self._knobs else []
        knob = "Set limits.allow_lossy: true, which makes the KV cache smaller, or choose" if found.knob else "Choose"
        cure = f"{knob} a smaller or more quantised model, change {', '.join(names)}, or free memory."
        message = f"The model {self._request.model} does not fit, whatever is given up: {rows}."
        raise InvalidInput(message, cure=cure, code="does_not_fit")

    def _need(self, settings: LoadSettings) -> LoadBytes:
        estimate = self._adapter.estimate_whole(replace(self._request, engine_params=self._params(settings)))
        if estimate is None:
            return LoadBytes(device=0, host=0)
        return LoadBytes(device=estimate.device_bytes // settings.devices, host=estimate.host_bytes)

    def _params(self, settings: LoadSettings) -> JsonObject:
        """Return the parameters of a load: the given ones, and those that a step has changed."""
        changed: dict[str, JsonValue] = {
            parameter: getattr(settings, meaning)
            for meaning, parameters in (self._knobs.names.items() if self._knobs is not None else ())
            for parameter in parameters
            if getattr(settings, meaning) != getattr(self._wanted, meaning)
        }
        return {**self._request.engine_params, **changed}


def _settings(knobs: LoadKnobs) -> LoadSettings:
    known = {meaning: knobs.values[parameters[0]] for meaning, parameters in knobs.names.items()}
    kind: Cache = next((kind for kind in _CACHES if kind == known.get("cache_type")), "f16")
    return LoadSettings(
        context_tokens=int(known.get("context_tokens", 0)),
        parallel=int(known.get("parallel", 1)),
        ubatch=int(known.get("ubatch", 512)),
        gpu_layers=int(known.get("gpu_layers", 0)),
        cache_type=kind,
    )


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:,.2f} GiB"
