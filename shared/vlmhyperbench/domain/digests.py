"""Canonical JSON and its hash, which identifies specs, manifests and requests."""

from __future__ import annotations

import hashlib
import json

from pydantic import BaseModel, JsonValue


def canonical_json(value: JsonValue | BaseModel) -> bytes:
    """Serialise as UTF-8 with sorted keys and without white space.

    Raises:
        ValueError: the value has a number that JSON cannot represent, such as NaN.
    """
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest_of(value: JsonValue | BaseModel) -> str:
    """Return the SHA-256 of the canonical JSON, 64 hex digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()
