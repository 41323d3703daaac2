"""Calls about who may use the API, and whether it is well: keys and the diagnosis."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from vlmhyperbench.client.call import Call, get_call, post_call
from vlmhyperbench.client.refusals import checked
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.health import Diagnosis
from vlmhyperbench.wire.keys import DEFAULT_LIFE_S, ApiKey, KeyCreate, KeyCreated


def list_keys() -> Call[Page[ApiKey]]:
    """List the keys of the project, in whatever state they are."""
    return get_call("/keys", Page[ApiKey])


def create_key(name: str, scopes: Sequence[str], *, expires_in_s: int | None = DEFAULT_LIFE_S) -> Call[KeyCreated]:
    """Make a key with at most the scopes of the own one; its secret is in this answer only."""
    body = {"name": name, "scopes": list(scopes), "expires_in_s": expires_in_s}
    return post_call("/keys", KeyCreated, checked(KeyCreate, body))


def revoke_key(prefix: str) -> Call[ApiKey]:
    """Revoke a key by its public prefix."""
    return post_call(f"/keys/{quote(prefix, safe='')}/revoke", ApiKey)


def diagnose() -> Call[Diagnosis]:
    """Say of the API's machine and of the platform what `vlmhyperbench doctor` says."""
    return get_call("/doctor", Diagnosis)
