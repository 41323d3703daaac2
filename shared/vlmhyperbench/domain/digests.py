"""Canonical JSON and its hash: the one way in which specs, manifests and requests get their identity."""

from __future__ import annotations

import hashlib
import json

from pydantic import BaseModel, JsonValue


def canonical_json(value: JsonValue | BaseModel) -> bytes:
    """Serialise with sorted keys, no white space, UTF-8; NaN and infinities are refused.

    Raises:
        ValueError: the value holds a number that JSON cannot.
    """
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest_of(value: JsonValue | BaseModel) -> str:
    """Return the SHA-256 of the canonical JSON, 64 hex digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()
