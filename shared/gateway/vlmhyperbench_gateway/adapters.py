"""Load an allowed adapter, and translate requests into an engine's bytes, for the gateway and for load plans alike."""

from __future__ import annotations

import json
from collections.abc import Collection

from vlmhyperbench.errors import InvalidInput, PluginFailure, VlmHyperBenchError
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.fitting import refuse_if_too_large
from vlmhyperbench_sdk.free_memory import free_memory
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import Backend
from vlmhyperbench_sdk.types import JsonObject, JsonValue


def load_adapter(name: str, allowed: Collection[str]) -> Backend:
    """Import an adapter by the name of its entry point, or by a dotted path into an allowed package, and construct it.

    Raises:
        InvalidInput: its distribution is not allowed.
        NotFound: no distribution registers the name; the error offers the nearest names.
        PluginFailure: it cannot be imported or constructed, or is no backend.
        VlmHyperBenchError: the adapter raised it on purpose.
    """
    _check_allowed(name, allowed)
    kind = discovery.load("backends", name)
    try:
        adapter = kind()
    except VlmHyperBenchError:
        raise
    except Exception as error:  # the adapter's constructor runs here, and may raise anything
        raise PluginFailure(f"The adapter {name!r} cannot be constructed: {error}.") from error
    if not isinstance(adapter, Backend):
        raise PluginFailure(f"The adapter {name!r} is not a backend: a method of the contract is missing.")
    return adapter


def refuse_what_cannot_fit(adapter: Backend, request: LoadRequest) -> None:
    """Refuse a load that needs more memory than is free, by the adapter's own estimate.

    Raises:
        InvalidInput: it cannot fit, or a parameter is wrong.
        NotFound: a model file is missing.
        PluginFailure: the adapter broke its contract.
    """
    try:
        estimate = adapter.estimate_memory(request)
    except VlmHyperBenchError:
        raise
    except Exception as error:  # the adapter's own code runs here, and may raise anything
        raise PluginFailure(f"The adapter failed to estimate the memory: {error!r}.") from error
    if estimate is not None and estimate.device_bytes + estimate.host_bytes > 0:
        refuse_if_too_large(request.model, estimate, free_memory())


def to_bytes(adapter: Backend, request: JsonObject) -> bytes:
    """Translate a request and write it as JSON.

    Raises:
        InvalidInput: the engine cannot do what the request asks.
        PluginFailure: the adapter broke its contract.
        VlmHyperBenchError: the adapter raised it on purpose.
    """
    try:
        body = adapter.to_engine(request)
    except VlmHyperBenchError:
        raise
    except Exception as error:  # the adapter's own code runs here, and may raise anything
        raise PluginFailure(f"The adapter failed to translate a request: {error!r}.") from error
    return write_json(body)


def write_json(value: JsonValue) -> bytes:
    """Write JSON without spaces; keys keep their order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _check_allowed(name: str, allowed: Collection[str]) -> None:
    for owner in sorted(discovery.owners("backends", name) - set(map(discovery.normalise, allowed))):
        raise InvalidInput(
            f"The adapter {name!r} comes from {owner}, which is not among the allowed adapters.",
            cure=f'Add "{owner}" to VLMHB_ALLOWED_ADAPTERS of the API and of the inference workers.',
            code="adapter_not_allowed",
        )
