"""Canonical JSON and its hash, which identifies specs, manifests and requests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel, JsonValue


def canonical_json(value: JsonValue | BaseModel) -> bytes:
    """Serialise as UTF-8 with sorted keys and without white space.

    Raises:
        ValueError: the value has a number that JSON cannot represent, such as NaN.
    """
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def metadata_json(metadata: Mapping[str, JsonValue]) -> bytes:
    """Serialise a sample's metadata: canonical, except that its schema keeps the order of its members.

    An engine that constrains an answer has them written in this order.

    Raises:
        ValueError: see `canonical_json`.
    """
    if "json_schema" not in metadata:
        return canonical_json(dict(metadata))
    ordered = {
        name: metadata[name] if name == "json_schema" else json.loads(canonical_json(metadata[name]))
        for name in sorted(metadata)
    }
    return json.dumps(ordered, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


KEY_LENGTH: Final = 16
"""Hex digits of a short key."""


def short_key(value: object) -> str:
    """Return the name of what a value of JSON describes: an environment, a wheel, a certificate."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:KEY_LENGTH]


def digest_of(value: JsonValue | BaseModel) -> str:
    """Return the SHA-256 of the canonical JSON, 64 hex digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()
