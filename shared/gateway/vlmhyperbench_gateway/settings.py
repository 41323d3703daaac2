"""The settings with which a gateway starts; those of a model come with its load."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from vlmhyperbench_sdk.gateway import EngineEnvironment
from vlmhyperbench_sdk.net import UrlPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Settings that do not change while the process runs."""

    key: str
    """The key that clients send as `X-API-Key` or bearer."""
    environment: EngineEnvironment = field(default_factory=EngineEnvironment)
    """The environment of the engine, and the adapters that are allowed."""
    data_root: Path | None = None
    """Folder below which images may be named as files."""
    url_policy: UrlPolicy = field(default_factory=UrlPolicy)
    max_in_flight: int = 512
    max_body_bytes: int = 256 * 1024 * 1024
    request_timeout_s: float = 3600.0
    engine_log: Path | None = None
    """File for the first and the last part of the engine's output, masked, which outlives the process."""
