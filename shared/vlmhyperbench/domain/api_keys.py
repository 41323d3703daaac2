"""The form of an API key, `<prefix>_<256 bits>`, and its stored form: the prefix, and an HMAC with a pepper."""

from __future__ import annotations

import hashlib
import hmac
import re

_KEY = re.compile(r"([A-Za-z0-9]{4,32})_([A-Za-z0-9_-]{40,100})")

SCOPES = (
    "artifact:read",
    "key:read",
    "key:write",
    "metrics:read",
    "registry:read",
    "registry:write",
    "run:read",
    "run:write",
    "worker:read",
    "worker:write",
)
"""All scopes that a route may require; `*` in a key stands for all of them."""
ALL_SCOPES = "*"


def prefix_of(key: str) -> str | None:
    """Return the public prefix of a key, by which it is looked up; None if the text is not a key."""
    match = _KEY.fullmatch(key)
    return match[1] if match else None


def hmac_of(key: str, pepper: str) -> str:
    """Return the stored HMAC of a key: 64 hex digits."""
    return hmac.new(pepper.encode(), key.encode(), hashlib.sha256).hexdigest()
