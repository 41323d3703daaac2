"""What is given up, in which order, so that a model fits into the memory that is free; pure.

Whoever loads has unloaded idle models before, leaves the prompt cache off, spreads a model over all devices of its
room, and decides by `domain/execution.py` which models of a pipeline stay loaded: none of that is a step here.

Lossless steps are taken by themselves: they cost time or room for longer prompts, never the quality of an answer. Lossy
ones are taken only where the caller allows them. Every step is recorded. Where nothing is left, a table says what is
needed, what there is, and which knob would help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

GIB: Final = 2**30
MARGIN: Final = 1.1
MARGIN_BYTES: Final = 256 * 2**20
MIN_CONTEXT_STEP: Final = 256
MIN_UBATCH: Final = 64

Cache = Literal["f16", "q8_0", "q4_0"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """How a model is loaded: what the steps change."""

    context_tokens: int
    """Of one slot."""
    parallel: int = 1
    ubatch: int = 512
    gpu_layers: int = 0
    devices: int = 1
    """Accelerators over which its layers are spread."""
    projector_on_device: bool = False
    cache_type: Cache = "f16"
    image_tokens: int | None = None
    quantization: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBytes:
    """Memory on accelerators, each of the devices by itself, and on the host."""

    device: int
    host: int

    @property
    def with_margin(self) -> LoadBytes:
        """What is reserved for an estimate: 10 % and 256 MiB more."""
        device = round(self.device * MARGIN) + MARGIN_BYTES if self.device else 0
        return LoadBytes(device=device, host=round(self.host * MARGIN) + MARGIN_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineMemory:
    """What may be used now."""

    devices: tuple[int, ...]
    """Usable bytes of each accelerator; empty without one."""
    host: int

    def holds(self, need: LoadBytes, settings: LoadSettings) -> bool:
        """Return whether the need fits on each device that is used, and on the host."""
        return need.host <= self.host and (
            need.device == 0
            or (len(self.devices) >= settings.devices and need.device <= min(self._largest(settings.devices)))
        )

    def device_bytes(self, settings: LoadSettings) -> int:
        """Return the usable bytes of the smallest device that would be used; 0 without one."""
        return min(self._largest(settings.devices), default=0)

    def _largest(self, count: int) -> tuple[int, ...]:
        return tuple(sorted(self.devices, reverse=True)[:count])


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTokens:
    """What the longest request of a task needs of a slot's context, at most."""

    text: int
    """Tokens of the prompt, of the chat template and of the answer."""
    images: int
    """Images of a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderLimits:
    """What the steps may not go below, and what they may choose from."""

    min_context_tokens: int
    """Prompt and max_tokens of the task, without its images."""
    layers: int
    images: int = 0
    """Maximum number of images of a request; each takes the image tokens of the settings."""
    min_image_tokens: int | None = None
    """Least tokens to which an image may be limited; None: the engine cannot limit them."""
    quantizations: tuple[str, ...] = ()
    """Smaller quantisations of the same model that are here, the largest first."""

    def least_context(self, settings: LoadSettings) -> int:
        """Return the context that a request of the task needs with these settings."""
        tokens = self.min_context_tokens + self.images * (settings.image_tokens or 0)
        return -(-tokens // MIN_CONTEXT_STEP) * MIN_CONTEXT_STEP


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """A step that was taken."""

    rung: str
    before: str
    after: str
    is_lossy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Settings that fit, and the steps that led to them."""

    settings: LoadSettings
    steps: tuple[Fallback, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """A row of the table of what does not fit."""

    memory: Literal["accelerator", "machine"]
    need: int
    have: int

    @property
    def missing(self) -> int:
        """Bytes that are lacking."""
        return self.need - self.have


@dataclass(frozen=True, slots=True, kw_only=True)
class NoFit:
    """Nothing is left to give up: the smallest settings, and what they lack."""

    settings: LoadSettings
    steps: tuple[Fallback, ...]
    rows: tuple[Shortfall, ...]
    fits_lossy: bool
    """Whether it would fit if quality might be given up; else only another machine or model helps."""


Needs = Callable[[LoadSettings], LoadBytes]
"""Settings → the estimate, without a margin; more of anything never needs less."""
Rung = tuple[str, Callable[[LoadSettings, LadderLimits, MachineMemory], Iterator[LoadSettings]]]


def fit(
    wanted: LoadSettings, machine: MachineMemory, limits: LadderLimits, needs: Needs, *, allow_lossy: bool = False
) -> Fitted | NoFit:
    """Return the first settings on the ladder that fit; every rung keeps what those before it gave up."""
    settings, steps = wanted, list[Fallback]()

    def fits(tried: LoadSettings) -> bool:
        return machine.holds(needs(tried).with_margin, tried)

    if fits(settings):
        return Fitted(settings=settings, steps=())
    for name, rung, is_lossy in _ladder(allow_lossy=allow_lossy):
        if fits(settings):
            break
        tried = settings
        for tried in rung(settings, limits, machine):
            if fits(tried):
                break
        if tried != settings:
            before, after = _differences(settings, tried)
            steps.append(Fallback(rung=name, before=before, after=after, is_lossy=is_lossy))
            settings = tried
    need = needs(settings).with_margin
    if machine.holds(need, settings):
        return Fitted(settings=settings, steps=tuple(steps))
    helps = not allow_lossy and isinstance(fit(wanted, machine, limits, needs, allow_lossy=True), Fitted)
    return NoFit(
        settings=settings,
        steps=tuple(steps),
        rows=_rows(need, machine, settings),
        fits_lossy=helps,
    )


def usable_device(free: int, total: int, reserved: int) -> int:
    """Return what may be used of an accelerator: what is free and not reserved, less 1 GiB."""
    return max(min(free, total - reserved) - GIB, 0)


def usable_host(free: int, total: int | None) -> int:
    """Return what may be used of the machine's memory: what is free, less 1 GiB or 5 % of all, whichever is more.

    The total is that of what the free bytes are part of: in a container with a limit, the limit. None if unknown.
    """
    return max(free - max(GIB, (total or 0) // 20), 0)


def _rows(need: LoadBytes, machine: MachineMemory, settings: LoadSettings) -> tuple[Shortfall, ...]:
    rows = (
        Shortfall(memory="accelerator", need=need.device, have=machine.device_bytes(settings)),
        Shortfall(memory="machine", need=need.host, have=machine.host),
    )
    return tuple(row for row in rows if row.missing > 0)


def _ladder(*, allow_lossy: bool) -> Iterator[tuple[str, Callable[..., Iterator[LoadSettings]], bool]]:
    for name, rung in _LOSSLESS:
        yield name, rung, False
    if allow_lossy:
        for name, rung in _LOSSY:
            yield name, rung, True


def _differences(before: LoadSettings, after: LoadSettings) -> tuple[str, str]:
    names = [name for name in LoadSettings.__slots__ if getattr(before, name) != getattr(after, name)]
    first, second = (", ".join(f"{name}={getattr(of, name)}" for name in names) for of in (before, after))
    return first, second


def _fewer_slots(settings: LoadSettings, _: LadderLimits, __: MachineMemory) -> Iterator[LoadSettings]:
    for parallel in range(settings.parallel - 1, 0, -1):
        yield replace(settings, parallel=parallel)


def _smaller_ubatch(settings: LoadSettings, _: LadderLimits, __: MachineMemory) -> Iterator[LoadSettings]:
    ubatch = settings.ubatch
    while ubatch // 2 >= MIN_UBATCH:
        ubatch //= 2
        yield replace(settings, ubatch=ubatch)


def _projector_on_host(settings: LoadSettings, _: LadderLimits, __: MachineMemory) -> Iterator[LoadSettings]:
    yield replace(settings, projector_on_device=False)


def _less_context(settings: LoadSettings, limits: LadderLimits, _: MachineMemory) -> Iterator[LoadSettings]:
    least = limits.least_context(settings)
    context = settings.context_tokens
    while context > least:
        context = max(least, context // 2)
        yield replace(settings, context_tokens=context)


def _fewer_layers(settings: LoadSettings, limits: LadderLimits, _: MachineMemory) -> Iterator[LoadSettings]:
    first = min(settings.gpu_layers, limits.layers + 1) if settings.gpu_layers >= 0 else limits.layers + 1
    for layers in range(first - 1, 0, -1):
        yield replace(settings, gpu_layers=layers)


def _host_only(settings: LoadSettings, _: LadderLimits, __: MachineMemory) -> Iterator[LoadSettings]:
    yield replace(settings, gpu_layers=0, devices=1, projector_on_device=False)


def _cache_of(kind: Cache) -> Callable[[LoadSettings, LadderLimits, MachineMemory], Iterator[LoadSettings]]:
    order: tuple[Cache, ...] = ("f16", "q8_0", "q4_0")

    def smaller(settings: LoadSettings, _: LadderLimits, __: MachineMemory) -> Iterator[LoadSettings]:
        if order.index(settings.cache_type) < order.index(kind):
            yield replace(settings, cache_type=kind)

    return smaller


def _fewer_image_tokens(settings: LoadSettings, limits: LadderLimits, _: MachineMemory) -> Iterator[LoadSettings]:
    if settings.image_tokens is not None and limits.min_image_tokens is not None:
        tokens = settings.image_tokens
        while tokens > limits.min_image_tokens:
            tokens = max(limits.min_image_tokens, tokens // 2)
            fewer = replace(settings, image_tokens=tokens)
            context = limits.least_context(fewer) if limits.images else settings.context_tokens
            yield replace(fewer, context_tokens=min(settings.context_tokens, context))


def _smaller_weights(settings: LoadSettings, limits: LadderLimits, _: MachineMemory) -> Iterator[LoadSettings]:
    for quantization in limits.quantizations:
        yield replace(settings, quantization=quantization)


_LOSSLESS: Final[tuple[Rung, ...]] = (
    ("fewer parallel slots", _fewer_slots),
    ("smaller ubatch", _smaller_ubatch),
    ("projector on the CPU", _projector_on_host),
    ("context down to what the task needs", _less_context),
    ("fewer layers on the accelerator", _fewer_layers),
    ("CPU only", _host_only),
)
_LOSSY: Final[tuple[Rung, ...]] = (
    ("KV cache in q8_0", _cache_of("q8_0")),
    ("KV cache in q4_0", _cache_of("q4_0")),
    ("fewer image tokens", _fewer_image_tokens),
    ("smaller quantisation", _smaller_weights),
)
