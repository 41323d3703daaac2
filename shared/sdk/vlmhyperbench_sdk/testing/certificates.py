"""The certificate of a conformance run: each check with its result, and the versions that it holds for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

Verdict = Literal["passed", "failed", "refused", "not_run"]
"""`refused`: the engine says by name that it cannot do it, which conforms; `not_run`: the suite lacked an input."""

CHECK_NAMES = (
    *("text", "image", "several_images", "stream_equals_whole", "stop", "seed", "json_schema", "regex"),
    *("over_long_input", "cancelled_stream_frees_its_slot", "streams_over_the_limit", "unload_frees_memory", "reload"),
)
"""The checks of the suite, in the order in which they run."""

SCHEMA = "vlmhb/certificate/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of one check."""

    name: str
    verdict: Verdict
    reason: str = ""
    """Why it did not pass."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """All results of a suite, with the versions of everything that took part."""

    created_at: str
    """UTC, ISO 8601."""
    model: str
    backend_class: str
    engine: str
    engine_version: str
    engine_packages: Mapping[str, str] = field(default_factory=dict)
    weights_sha256: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of this side: Python, the SDK, OpenAI's client, the system."""
    checks: Sequence[CheckResult] = ()

    @property
    def is_conforming(self) -> bool:
        """Whether no check failed, and at least one passed."""
        verdicts = {check.verdict for check in self.checks}
        return "failed" not in verdicts and "passed" in verdicts

    def check(self, name: str) -> CheckResult:
        """Return the result of a check.

        Raises:
            KeyError: the suite has no such check.
        """
        return {check.name: check for check in self.checks}[name]

    def to_json(self) -> str:
        """Return the certificate as JSON with sorted keys."""
        document = {"schema": SCHEMA, "is_conforming": self.is_conforming, **asdict(self)}
        return json.dumps(document, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
