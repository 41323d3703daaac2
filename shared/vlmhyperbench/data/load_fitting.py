"""Make a load smaller, step by step, until it fits: the ladder of fallbacks over the parameters of an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache

from vlmhyperbench.domain.fallbacks import (
    MIN_CONTEXT_STEP,
    Cache,
    Fallback,
    LadderLimits,
    LoadBytes,
    LoadSettings,
    MachineMemory,
    NoFit,
    Shortfall,
    TaskTokens,
    fit,
)
from vlmhyperbench.domain.refusals import MemoryRefusal, engine_knobs, knobs_of
from vlmhyperbench.domain.targets import ModelTarget
from vlmhyperbench.errors import DoesNotFit, InvalidInput
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import FittingBackend, LoadKnobs
from vlmhyperbench_sdk.types import JsonObject, JsonValue

_CACHES: tuple[Cache, ...] = ("f16", "q8_0", "q4_0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Substitute:
    """A smaller quantisation of the same model, all of whose files are here."""

    target: ModelTarget
    files: Mapping[str, str]
    """Role → path."""

    @property
    def name(self) -> str:
        """The name in the recorded step."""
        return f"{self.target.quantization or 'unknown'} ({self.target.model})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedLoad:
    """The parameters with which a target is loaded, and what was given up for them."""

    engine_params: JsonObject
    steps: tuple[Fallback, ...] = ()
    settings: LoadSettings | None = None
    """None for a target whose engine has no ladder."""
    substitute: ModelTarget | None = None
    """The smaller quantisation whose files are loaded instead; None: those of the target."""

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
        devices: int = 1,
        allow_lossy: bool = False,
        task: TaskTokens | None = None,
        smaller: Sequence[Substitute] = (),
    ) -> None:
        """Read what can be changed.

        Args:
            adapter: The adapter of the target.
            request: How it is loaded if everything fits.
            measure: Returns the memory that it may use; called when it is fitted, after others were unloaded.
            devices: Accelerators over which the engine spreads its layers: all that it sees.
            allow_lossy: Whether quality may be given up too.
            task: What the longest request needs of the context; None: not known, so that the context is not cut.
            smaller: Smaller quantisations of the same model, the largest first.

        Raises:
            InvalidInput: a parameter is unknown or out of range, or a file is no model.
            NotFound: a file is missing.
        """
        self._adapter, self._request, self._measure = adapter, request, measure
        self.allow_lossy, self.task = allow_lossy, task
        self._smaller = {each.name: each for each in smaller}
        self._knobs = adapter.knobs(request)
        self._wanted = _settings(self._knobs, devices) if self._knobs is not None else LoadSettings(context_tokens=0)
        self._needs: Callable[[LoadSettings], LoadBytes] = cache(self._need)

    def fit(self) -> FittedLoad:
        """Return the first parameters that fit; where none do, those that need least if the engine may still start.

        Raises:
            InvalidInput: nothing is left to give up; code `does_not_fit`, with need, have and shortfall.
        """
        return self._fit(self._wanted, self._measure(), ())

    def below(self, failed: FittedLoad) -> FittedLoad:
        """Return the next rung below a load that ran out of memory while it answered.

        Raises:
            DoesNotFit: there is none.
        """
        lower = self.after_out_of_memory(failed)
        if lower is None:
            raise self.ran_out(failed)
        return lower

    def ran_out(self, failed: FittedLoad) -> DoesNotFit:
        """Return the refusal of a target that ran out of memory, and for which no further rung is tried."""
        settings, machine = failed.settings or self._wanted, self._measure()
        need = self._needs(settings).with_margin
        rows = [Shortfall(memory="machine", need=need.host, have=machine.host)]
        if need.device:
            rows.insert(0, Shortfall(memory="accelerator", need=need.device, have=machine.device_bytes(settings)))
        names = self._knobs.names if self._knobs is not None else {}
        refusal = MemoryRefusal(model=self._request.model, rows=rows, knobs=engine_knobs(names), has_run_out=True)
        return DoesNotFit(refusal.message, cure=refusal.cure, facts=refusal.facts)

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

    def held_bytes(self, fitted: FittedLoad) -> int:
        """Return what a load may have taken before it ended: of accelerators if it uses some, else of the machine."""
        settings = fitted.settings or self._wanted
        need = self._needs(settings)
        return need.device * settings.devices or need.host

    def smallest(self) -> LoadBytes | None:
        """Return the least that a load of some task may need without a loss of quality; None if unknown.

        It has no margin. The task with the shortest prompts is assumed, so that the worker, which knows them, decides.
        """
        if self._knobs is None:
            return None
        nothing = MachineMemory(devices=(), host=0)
        found = fit(self._wanted, nothing, replace(self.limits, min_context_tokens=MIN_CONTEXT_STEP), self._needs)
        return self._needs(found.settings)

    def holds_task(self, fitted: FittedLoad) -> bool:
        """Return whether a request of this task surely has room in the context of a load that was made smaller."""
        if fitted.settings is None or fitted.settings.context_tokens >= self._wanted.context_tokens:
            return True
        return fitted.settings.context_tokens >= self.limits.least_context(fitted.settings)

    @property
    def limits(self) -> LadderLimits:
        """What the steps may not go below."""
        knobs, task = self._knobs, self.task
        is_known = task is not None and (task.images == 0 or self._wanted.image_tokens is not None)
        return LadderLimits(
            min_context_tokens=task.text if task is not None and is_known else self._wanted.context_tokens,
            layers=knobs.layers if knobs is not None else 0,
            images=task.images if task is not None and is_known else 0,
            min_image_tokens=knobs.min_image_tokens if knobs is not None else None,
            quantizations=tuple(self._smaller),
        )

    def _fit(self, wanted: LoadSettings, machine: MachineMemory, before: tuple[Fallback, ...]) -> FittedLoad:
        if self._knobs is None:
            return FittedLoad(engine_params=self._request.engine_params)
        found = fit(wanted, machine, self.limits, self._needs, allow_lossy=self.allow_lossy)
        if isinstance(found, NoFit):
            self._require_bare_fit(found, machine)
        substitute = self._smaller.get(found.settings.quantization or "")
        return FittedLoad(
            engine_params=self._params(found.settings),
            steps=(*before, *found.steps),
            settings=found.settings,
            substitute=substitute.target if substitute is not None else None,
        )

    def _require_bare_fit(self, found: NoFit, machine: MachineMemory) -> None:
        """Let the smallest settings pass if they fit without the margin, since an estimate may be too high by it.

        Raises:
            DoesNotFit: they do not.
        """
        bare = self._needs(found.settings)
        if machine.holds(bare, found.settings):
            return
        names = self._knobs.names if self._knobs is not None else {}
        refusal = MemoryRefusal(model=self._request.model, rows=found.rows, knobs=knobs_of(found, names))
        raise DoesNotFit(refusal.message, cure=refusal.cure, facts=refusal.facts)

    def _need(self, settings: LoadSettings) -> LoadBytes:
        substitute = self._smaller.get(settings.quantization or "")
        files = substitute.files if substitute is not None else self._request.files
        request = replace(self._request, files=files, engine_params=self._params(settings))
        estimate = self._adapter.estimate_whole(request)
        if estimate is None:
            return LoadBytes(device=0, host=0)
        return LoadBytes(device=estimate.device_bytes // settings.devices, host=estimate.host_bytes)

    def _params(self, settings: LoadSettings) -> JsonObject:
        """Return the parameters of a load: the given ones, and those that a step has changed."""
        changed: dict[str, JsonValue] = {
            parameter: _written(getattr(settings, meaning))
            for meaning, parameters in (self._knobs.names.items() if self._knobs is not None else ())
            for parameter in parameters
            if getattr(settings, meaning) != getattr(self._wanted, meaning)
        }
        return {**self._request.engine_params, **changed}


def _written(value: int | str | bool) -> JsonValue:
    return ("off", "on")[value] if isinstance(value, bool) else value


def _settings(knobs: LoadKnobs, devices: int) -> LoadSettings:
    known = {meaning: knobs.values[parameters[0]] for meaning, parameters in knobs.names.items()}
    kind: Cache = next((kind for kind in _CACHES if kind == known.get("cache_type")), "f16")
    return LoadSettings(
        context_tokens=int(known.get("context_tokens", 0)),
        parallel=int(known.get("parallel", 1)),
        ubatch=int(known.get("ubatch", 512)),
        gpu_layers=int(known.get("gpu_layers", 0)),
        devices=devices,
        projector_on_device=knobs.projector_on_device,
        image_tokens=knobs.image_tokens,
        cache_type=kind,
    )
