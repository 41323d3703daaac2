"""What the stack remembers of loaded models: the most memory that each has used, where a stack answers."""

from __future__ import annotations

from vlmhyperbench.client import Client
from vlmhyperbench.errors import Denied, NotFound, Unavailable
from vlmhyperbench.wire.models import ModelStatus


def remembered_models() -> dict[str, ModelStatus]:
    """Return what the stack knows of each model, by its name; nothing without a stack."""
    try:
        with Client() as client:
            return {status.name: status for status in client.models().items}
    except (Denied, NotFound, Unavailable):
        return {}


def remembered(name: str) -> dict[str, int]:
    """Return device → bytes that the model has used there with the parameters of its entry.

    Without a stack, or where it does not know the model, there is nothing to show, and the estimate stands alone.
    """
    try:
        with Client() as client:
            return {row.device: row.bytes for row in client.estimate_model(name).measured}
    except (Denied, NotFound, Unavailable):
        return {}
