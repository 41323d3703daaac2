"""Resolve a registered model for commands without a stack: to its pinned target, and to the request to load it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pydantic import JsonValue

from vlmhyperbench.cli.registry import open_catalogue
from vlmhyperbench.data import weights
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.registry.choices import ModelChoice
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import ModelEntry
from vlmhyperbench.registry.targets import resolve_target
from vlmhyperbench.registry.validation import validate
from vlmhyperbench_sdk.gateway import LoadRequest

BITS = {"F32": 32, "FP8": 8, "Q8_0": 8.5, "Q6_K": 6.56, "Q5_K_M": 5.7, "Q4_K_M": 4.89, "Q4_0": 4.66}
"""Quantisation → bits of a parameter; others have 16. Of llama.cpp's types: its page of `llama-quantize`, 8B model."""


def stated_estimate(model: str) -> int | None:
    """Return the bytes of a model's weights by what its entry states, if its files are neither here nor pinned."""
    entry = open_catalogue().models.get(model)
    return weights_bytes(entry) if entry is not None and entry.is_unpinned and entry.recipe is None else None


def weights_bytes(entry: ModelEntry) -> int | None:
    """Return the bytes of a model's weights by its parameters and its quantisation; None if they are not stated."""
    if entry.parameter_count is None:
        return None
    return round(entry.parameter_count * BITS.get(entry.quantization or "", 16) / 8)


def resolve_model(
    model: str, backend: str | None, params: Mapping[str, JsonValue], *, adapters: Collection[str]
) -> ModelTarget:
    """Return the pinned target of a registered model.

    Raises:
        RegistryErrors: the model cannot be used; lists every error.
    """
    chosen: dict[str, JsonValue] = {"model": model, "backend": backend, "engine_params": dict(params)}
    choice, problems = validate(ModelChoice, chosen)
    references = References(catalogue=open_catalogue(), plugins=InstalledPlugins(adapters=adapters))
    target = resolve_target(references, choice, None, ()) if choice is not None else None
    if not isinstance(target, ModelTarget) or references.problems:
        raise RegistryErrors.of((*problems, *references.problems))
    return target


def load_request(target: ModelTarget, cache: ModelCache, load_timeout_s: float = 300.0) -> LoadRequest:
    """Return the request that loads a target, with its verified files.

    Raises:
        NotFound: a file does not exist, or is not fetched.
        Conflict: a file does not match its registered hash.
    """
    return LoadRequest(
        model=target.model,
        backend_class=target.backend_class,
        files=weights.files_for_engine(target.files, cache),
        engine_params=target.engine_params,
        load_timeout_s=load_timeout_s,
    )
