"""What a claim records about the environment in which its engine ran, and by which a certificate names it."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import distributions
from typing import Final

from vlmhyperbench.domain.digests import short_key
from vlmhyperbench.domain.environments import EnvironmentSpec
from vlmhyperbench.environments.base import Prepared
from vlmhyperbench_sdk.types import JsonValue

PLATFORM: Final = "platform"
"""Kind of an environment that no entry declares: the platform's own interpreter."""
_NOT_RECORDED: Final = frozenset({"lock_fd", "inherited", "launcher", "rented"})
"""How a process uses the environment, which is not part of what it consists of."""


def record_prepared(spec: EnvironmentSpec, ready: Prepared) -> dict[str, JsonValue]:
    """Return the record of an environment that was prepared: kind, key, interpreter, packages as resolved."""
    return {"kind": spec.kind, **{name: item for name, item in asdict(ready).items() if name not in _NOT_RECORDED}}


def combined(used: Sequence[Mapping[str, JsonValue]]) -> dict[str, JsonValue]:
    """Return one record of the environments of a target: that of its engine, with that of its adapter if it has one."""
    *adapter, engine = used
    if not adapter:
        return dict(engine)
    return {**engine, "key": "-".join(str(record["key"]) for record in used), "adapter": dict(adapter[0])}


def record_platform() -> dict[str, JsonValue]:
    """Return the record of the platform's own interpreter; its key is a hash of what is installed."""
    packages = {installed.metadata["Name"]: installed.version for installed in distributions()}
    return {
        "kind": PLATFORM,
        "key": short_key([platform.python_version(), packages]),
        "python": sys.executable,
        "python_version": platform.python_version(),
    }
