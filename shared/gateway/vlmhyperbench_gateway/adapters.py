"""Load the adapters that are allowed, and write the bytes that an engine gets: gateway and load plan use the same."""

from __future__ import annotations

import json
from collections.abc import Collection

from vlmhyperbench.errors import InvalidInput, PluginFailure
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.protocols import Backend
from vlmhyperbench_sdk.types import JsonObject, JsonValue


def load_adapter(name: str, allowed: Collection[str]) -> Backend:
    """Import the adapter behind an entry point's name, or a dotted path into an allowed package, and make one.

    Raises:
        InvalidInput: its distribution is not allowed.
        NotFound: nobody registers the name; the nearest are offered.
        PluginFailure: it cannot be imported, or is no backend.
    """
    _check_allowed(name, allowed)
    kind = discovery.load("backends", name)
    try:
        made = kind()
    except Exception as error:
        raise PluginFailure(f"The adapter {name!r} cannot be made: {error}.") from error
    if not isinstance(made, Backend):
        raise PluginFailure(f"The adapter {name!r} is no backend: a method of the contract is missing.")
    return made


def to_bytes(adapter: Backend, request: JsonObject) -> bytes:
    """Translate a request and write it as JSON.

    Raises:
        InvalidInput: the engine cannot do what the request asks.
        PluginFailure: the adapter broke its contract.
    """
    try:
        body = adapter.to_engine(request)
    except InvalidInput:
        raise
    except Exception as error:
        raise PluginFailure(f"The adapter failed to translate a request: {error!r}.") from error
    return write_json(body)


def write_json(value: JsonValue) -> bytes:
    """Write JSON without spaces, in the order given."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _check_allowed(name: str, allowed: Collection[str]) -> None:
    for owner in sorted(discovery.owners("backends", name) - set(map(discovery.normalise, allowed))):
        raise InvalidInput(
            f"The adapter {name!r} comes from {owner}, which is not among the allowed adapters.",
            cure=f'Add "{owner}" to VLMHB_ALLOWED_ADAPTERS of the API and of the inference workers.',
            code="adapter_not_allowed",
        )
