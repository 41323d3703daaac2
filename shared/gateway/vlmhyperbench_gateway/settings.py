"""What the gateway is told when it starts; everything about a model comes later, with its load."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from vlmhyperbench_sdk.gateway import EngineEnvironment
from vlmhyperbench_sdk.net import UrlPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Frozen for the life of the process."""

    key: str
    """What clients send as `X-API-Key` or bearer."""
    environment: EngineEnvironment = field(default_factory=EngineEnvironment)
    """Where the engine runs and whose adapters may drive it."""
    data_root: Path | None = None
    """Images may be named as files below it."""
    url_policy: UrlPolicy = field(default_factory=UrlPolicy)
    max_in_flight: int = 512
    max_body_bytes: int = 256 * 1024 * 1024
    request_timeout_s: float = 3600.0
    engine_log: Path | None = None
    """Where the engine's output is kept beyond the process's life, masked."""
