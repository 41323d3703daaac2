"""What an API key looks like and how it is stored: `<prefix>_<256 bits>`, kept as prefix and HMAC under a pepper."""

from __future__ import annotations

import hashlib
import hmac
import re

_KEY = re.compile(r"([A-Za-z0-9]{4,32})_([A-Za-z0-9_-]{40,100})")

SCOPES = ("artifact:read", "registry:read", "run:read", "run:write", "worker:read")
"""Every scope that a route may ask for; `*` in a key stands for all of them."""
ALL_SCOPES = "*"


def prefix_of(key: str) -> str | None:
    """Return the public part of a key, by which it is found; None where it is no key."""
    found = _KEY.fullmatch(key)
    return found[1] if found else None


def hmac_of(key: str, pepper: str) -> str:
    """Return what is stored of a key: 64 hex digits."""
    return hmac.new(pepper.encode(), key.encode(), hashlib.sha256).hexdigest()
