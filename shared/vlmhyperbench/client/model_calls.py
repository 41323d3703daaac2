"""The requests about GGUF models, for both clients: their status, their memory, and what workers keep loaded."""

from __future__ import annotations

from vlmhyperbench.client.call import Call, get_call, named, page_call, post_call
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.models import ModelEstimate, ModelLoad, ModelStatus


def list_models() -> Call[Page[ModelStatus]]:
    """List the registered GGUF models with their status."""
    return page_call("/models", Page[ModelStatus])


def get_model(name: str) -> Call[ModelStatus]:
    """Read the status of a registered GGUF model."""
    return get_call(f"/models/{named(name, 'model')}", ModelStatus)


def estimate_model(name: str) -> Call[ModelEstimate]:
    """Estimate the memory of a registered GGUF model, beside what was measured."""
    return get_call(f"/models/{named(name, 'model')}/estimate", ModelEstimate)


def load_model(name: str, *, pin: bool = False) -> Call[ModelStatus]:
    """Ask a worker to load a model when it has no job."""
    return post_call(f"/models/{named(name, 'model')}/load", ModelStatus, ModelLoad(pin=pin))


def unload_model(name: str) -> Call[ModelStatus]:
    """Ask the worker that has loaded a model to unload it."""
    return post_call(f"/models/{named(name, 'model')}/unload", ModelStatus)
