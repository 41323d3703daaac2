"""Bodies about registered GGUF models: whether they can be used, what they need, and whether they are loaded."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vlmhyperbench.wire.base import Input, Output
from vlmhyperbench.wire.shortages import MemoryShortage

ModelState = Literal["available", "missing", "invalid", "too_large", "waiting", "loading", "loaded", "error"]


class ModelStatus(Output):
    """A registered GGUF model, or a GGUF file beside those of registered models."""

    name: str
    """Of a file that no entry uses, its path."""
    status: ModelState
    """`waiting`: a worker will load it when it has no job. By files and memory of the machine of the API."""
    reason: str | None
    """Why it cannot be used, why its load failed, or what was given up so that it fits."""
    shortage: MemoryShortage | None = None
    """What memory it lacked, where its load was refused for that."""
    file: str | None = None
    """Name of the file of its weights."""
    worker: str | None = None
    """Name of the worker that has loaded it."""
    is_pinned: bool = False
    is_registered: bool = True
    """Whether an entry uses it; a file that none uses cannot be loaded before it is registered."""
    required_for_base: bool = False
    """Whether the base pipeline does not start without it, beside the models that it asks."""
    size_bytes: int | None = None
    quantization: str | None = None
    context_tokens: int | None = None
    architecture: str | None = None
    parameter_count: int | None = None
    need_bytes: int | None = None
    """Memory on accelerators and host together."""
    estimate_source: str | None = None
    measured_bytes: int | None = None
    """Most memory that it has used on a device with the parameters of its entry; it replaces the estimate."""


class ModelLoad(Input):
    """How a model is loaded."""

    pin: bool = False
    """Make room for other models last, and load it again when the worker has nothing else to do; `pin` of its entry
    does so too."""


class MeasuredMemory(Output):
    """The most memory that the loaded model has used on a kind of device."""

    device: str
    bytes: int


class ModelEstimate(Output):
    """What a model needs with the parameters of its entry, and what was measured."""

    model: str
    backend: str
    device_bytes: int
    host_bytes: int
    source: str
    """`static`: computed from the headers; `dry_run`: the engine's own."""
    margin_device_bytes: int
    margin_host_bytes: int
    """With 10 % and 256 MiB more, as the ladder of fallbacks reserves it."""
    parts: dict[str, int]
    knobs: list[str]
    measured: list[MeasuredMemory] = Field(default_factory=list)
    """It replaces the estimate when the next job is placed on such a device."""
