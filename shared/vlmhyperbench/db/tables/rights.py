"""What the account of a worker may do with each table: whoever adds a table decides it here.

A worker whose account is stolen can disturb the jobs of its stack; it can neither read a key, a token or a request of
the API, nor change the tables, nor delete what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_READ: Final = ("SELECT",)
_APPEND: Final = ("SELECT", "INSERT")
_CHANGE: Final = ("SELECT", "UPDATE")
_WRITE: Final = ("SELECT", "INSERT", "UPDATE")

RIGHTS: Final[Mapping[str, tuple[str, ...]]] = {
    "alembic_version": _READ,
    "api_key": (),
    "artifact": _WRITE,
    "chunk": _APPEND,
    "claim": _WRITE,
    "device": _WRITE,
    "drain": _READ,
    "ended_session": (),
    "event": _APPEND,
    "experiment": _CHANGE,
    "export": (),
    "fact": _APPEND,
    "held_model": _CHANGE,
    "idempotency_key": (),
    "job": _WRITE,
    "join_token": (),
    "measure_manifest": _WRITE,
    "memory_estimate": _WRITE,
    "memory_peak": _WRITE,
    "phase": _WRITE,
    "quarantine": _WRITE,
    "registry_entry": (),
    "reservation": ("SELECT", "INSERT", "DELETE"),
    "reused_fact": _APPEND,
    "reused_phase": _APPEND,
    "run": _CHANGE,
    "run_listing": _CHANGE,
    "run_tier": _READ,
    "sample_manifest": _WRITE,
    "saved_view": (),
    "worker": _WRITE,
}
"""Table → rights. Locking rows needs the right to update them."""
