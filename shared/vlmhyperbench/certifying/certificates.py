"""The stored certificates of this machine, and the rule of which one holds for a target.

`<home>/certificates/<backend>-<key>.json`; the key is a hash of the subject, so that another version of the adapter,
another environment or another machine has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from vlmhyperbench.decoding import decode
from vlmhyperbench.domain.digests import short_key
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.errors import Conflict
from vlmhyperbench.files import write_whole
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.jsontext import parse_object
from vlmhyperbench_sdk.testing.certificates import Certificate
from vlmhyperbench_sdk.types import JsonObject, JsonValue

SCHEMA: Final = "vlmhb/backend-certificate/v1"
_MACHINE: Final = ("cpu_model", "cpu_threads", "driver", "system", "architecture")
"""What of a machine a certificate holds for, beside its GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a certificate holds for."""

    backend: str
    backend_class: str
    adapter: str | None
    """Distribution and version of the adapter, or its module and hash."""
    environment: str
    """Key of the environment, a hash of everything that is installed in it."""
    machine: str
    """Hash of processor, threads, GPUs by their UUIDs, driver, system and architecture."""

    @property
    def key(self) -> str:
        """Short name of the subject."""
        return short_key(asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Mean of one figure over repeats, with Student's t interval at 95 %; None where it could not be measured."""

    mean: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The performance baseline at one number of requests in flight."""

    in_flight: int
    repeats: int
    requests: int
    """Requests of each repeat."""
    valid: bool
    """Whether the load generator kept its own gates in every repeat."""
    failed_gates: Sequence[str]
    """Those that it did not keep."""
    measured_at: str
    """`engine`, `gateway`, or `tunnel`: at the engine's URL, which leads to a rented machine."""
    ttft_ms: Measured
    """Median of a repeat."""
    tpot_ms: Measured
    """Median of a repeat."""
    output_tokens_per_s: Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendCertificate:
    """What was checked and measured, of what, where and when."""

    subject: Subject
    environment: JsonObject
    """Kind, key, interpreter, packages."""
    machine: JsonObject
    host: str
    conformance: Certificate
    baseline: Sequence[Level] = ()

    @property
    def file_name(self) -> str:
        """Name of its file."""
        return f"{self.subject.backend}-{self.subject.key}.json"


def subject_of(target: ModelTarget, environment: Mapping[str, JsonValue], machine: Mapping[str, JsonValue]) -> Subject:
    """Return what a certificate of a target must hold for.

    Args:
        target: the pinned target.
        environment: the record of its environment (`environments.used`).
        machine: the description of this machine (`worker.machine`).
    """
    devices = machine.get("devices")
    gpus = [
        device.get("uuid") for device in (devices if isinstance(devices, Sequence) else ()) if isinstance(device, dict)
    ]
    return Subject(
        backend=target.backend,
        backend_class=target.backend_class,
        adapter=None if target.adapter is None else target.adapter.label,
        environment=str(environment["key"]),
        machine=short_key({**{name: machine.get(name) for name in _MACHINE}, "gpus": gpus}),
    )


class CertificateStore:
    """The certificates of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, certificate: BackendCertificate) -> Path:
        """Store a certificate, in place of an older one of the same subject.

        Raises:
            OSError: the folder cannot be written.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.folder / certificate.file_name
        write_whole(path, to_json(certificate), is_durable=True)
        return path

    def find(self, subject: Subject) -> tuple[Path, BackendCertificate] | None:
        """Return the certificate of exactly this subject; None if there is none, or if it cannot be read."""
        path = self.folder / f"{subject.backend}-{subject.key}.json"
        certificate = _read(path)
        return (path, certificate) if certificate is not None and certificate.subject == subject else None

    def of_backend(self, backend: str | None = None) -> list[tuple[Path, BackendCertificate]]:
        """Return all readable certificates, or those of one backend, newest first."""
        pattern = "*.json" if backend is None else f"{backend}-*.json"
        read = [(path, _read(path)) for path in sorted(self.folder.glob(pattern))]
        known = [(path, certificate) for path, certificate in read if certificate is not None]
        wanted = [pair for pair in known if backend in {None, pair[1].subject.backend}]
        return sorted(wanted, key=lambda pair: pair[1].conformance.created_at, reverse=True)


def require(
    target: ModelTarget, subject: Subject, found: tuple[Path, BackendCertificate] | None
) -> dict[str, JsonValue] | None:
    """Return what a claim records of the certificate of its target; None if there is none and none is needed.

    Raises:
        Conflict: the registry requires a certificate, and there is none of exactly this environment on this machine,
            or a required check did not pass; code `not_certified`.
    """
    required = target.requires_certificate
    cure = f"Run `vlmhyperbench envs check {target.backend}` on this machine, with the VLMHB_HOME of its worker."
    if found is None:
        if required is None:
            return None
        raise Conflict(
            f"The backend {target.backend!r} requires a certificate, and this machine has none for the environment "
            f"{subject.environment} with {subject.adapter or subject.backend_class}.",
            cure=cure,
            code="not_certified",
        )
    path, certificate = found
    lacking = [] if required is None else lacking_checks(certificate.conformance, required)
    if lacking:
        raise Conflict(
            f"The certificate of the backend {target.backend!r} in {path} lacks required checks: {', '.join(lacking)}.",
            cure=f"Read it with `vlmhyperbench envs check {target.backend} --show`. {cure}",
            code="not_certified",
        )
    content = path.read_bytes()
    return {
        "file": path.name,
        "sha256": sha256(content).hexdigest(),
        "created_at": certificate.conformance.created_at,
        "is_conforming": certificate.conformance.is_conforming,
    }


def lacking_checks(conformance: Certificate, required: Sequence[str]) -> list[str]:
    """Return the required checks that did not pass, with their verdicts; none named: no check may have failed."""
    verdicts: Mapping[str, str] = {check.name: check.verdict for check in conformance.checks}
    if required:
        return [f"{name} ({verdicts.get(name, 'missing')})" for name in required if verdicts.get(name) != "passed"]
    failed = [f"{name} ({verdict})" for name, verdict in verdicts.items() if verdict == "failed"]
    return failed or ([] if conformance.is_conforming else ["all (none passed)"])


def to_json(certificate: BackendCertificate) -> bytes:
    """Return a certificate as UTF-8 JSON."""
    document = {"schema": SCHEMA, **asdict(certificate)}
    return (json.dumps(document, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()


def _read(path: Path) -> BackendCertificate | None:
    try:
        stored = parse_object(path.read_bytes(), what="The certificate")
        if stored.get("schema") != SCHEMA:
            return None
        fields = {name: item for name, item in stored.items() if name != "schema"}
        return decode(BackendCertificate, fields, "certificate")
    except (OSError, InvalidInput):
        return None
