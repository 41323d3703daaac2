"""A certificate holds for exactly one environment, adapter and machine, and a requirement is kept to the letter."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.wording import Wording
from vlmhyperbench.certifying.certificates import (
    BackendCertificate,
    CertificateStore,
    Level,
    Measured,
    Subject,
    require,
    subject_of,
)
from vlmhyperbench.certifying.checking import _measured
from vlmhyperbench.domain.specs import ModelTarget, PackageRef
from vlmhyperbench.errors import Conflict
from vlmhyperbench.worker.gateway import GatewayClient, GatewayOptions
from vlmhyperbench_sdk.gateway import EngineEnvironment, LoadRequest
from vlmhyperbench_sdk.testing.certificates import CHECK_NAMES, Certificate, CheckResult
from vlmhyperbench_sdk.testing.conformance_checks import CHECKS
from vlmhyperbench_sdk.types import JsonObject, JsonValue

ENVIRONMENT: JsonObject = {"kind": "virtualenv", "key": "0123456789abcdef", "python_version": "3.11.7"}
MACHINE: dict[str, JsonValue] = {
    "cpu_model": "CPU",
    "cpu_threads": 2,
    "driver": "570.1",
    "system": "Linux",
    "architecture": "x86_64",
    "devices": [{"kind": "gpu", "name": "H100", "uuid": "GPU-1"}],
    "kernel": "6.1",
}
FIGURE = Measured(mean=1.5, low=1.0, high=2.0)


def target(**changes: object) -> ModelTarget:
    fields: dict[str, object] = {
        "model": "m",
        "version": "1.0.0",
        "backend": "engine",
        "backend_class": "simulated",
        "adapter": PackageRef(distribution="adapter", version="1.0"),
    }
    return ModelTarget.model_validate(fields | changes)


def certificate(subject: Subject, **verdicts: str) -> BackendCertificate:
    checks = [CheckResult(name=name, verdict="passed") for name in CHECK_NAMES if name not in verdicts]
    checks += [CheckResult(name=name, verdict=verdict) for name, verdict in verdicts.items()]
    conformance = Certificate(
        created_at="2026-01-02T03:04:05Z",
        model="m",
        backend_class="simulated",
        engine="engine",
        engine_version="1.0",
        engine_packages={"engine": "1.0"},
        checks=checks,
    )
    level = Level(
        in_flight=1,
        repeats=5,
        requests=8,
        valid=True,
        failed_gates=[],
        measured_at="engine",
        ttft_ms=FIGURE,
        tpot_ms=Measured(mean=None, low=None, high=None),
        output_tokens_per_s=FIGURE,
    )
    return BackendCertificate(
        subject=subject,
        environment=ENVIRONMENT,
        machine=MACHINE,
        host="here",
        conformance=conformance,
        baseline=[level],
    )


@pytest.fixture
def store(tmp_path: Path) -> CertificateStore:
    return CertificateStore(tmp_path / "certificates")


@pytest.fixture
def subject() -> Subject:
    return subject_of(target(), ENVIRONMENT, MACHINE)


def test_the_suite_has_exactly_the_checks_that_entries_may_require() -> None:
    assert tuple(CHECKS) == CHECK_NAMES


def test_a_certificate_is_read_as_it_was_written(store: CertificateStore, subject: Subject) -> None:
    written = certificate(subject)
    path = store.write(written)
    assert path.parent.stat().st_mode & 0o077 == 0
    assert store.find(subject) == (path, written)
    assert store.of_backend("engine") == store.of_backend() == [(path, written)]
    assert store.of_backend("eng") == []


@pytest.mark.parametrize(
    "other",
    [
        subject_of(target(adapter=PackageRef(distribution="adapter", version="1.1")), ENVIRONMENT, MACHINE),
        subject_of(target(), {**ENVIRONMENT, "key": "fedcba9876543210"}, MACHINE),
        subject_of(target(), ENVIRONMENT, {**MACHINE, "driver": "580.1"}),
        subject_of(target(), ENVIRONMENT, {**MACHINE, "devices": [{"kind": "gpu", "uuid": "GPU-2"}]}),
    ],
    ids=["adapter", "environment", "driver", "GPU"],
)
def test_it_holds_for_nothing_else(store: CertificateStore, subject: Subject, other: Subject) -> None:
    store.write(certificate(subject))
    assert store.find(other) is None


def test_another_kernel_is_the_same_machine(subject: Subject) -> None:
    assert subject_of(target(), ENVIRONMENT, {**MACHINE, "kernel": "6.2"}) == subject


def test_a_damaged_certificate_is_none(store: CertificateStore, subject: Subject) -> None:
    path = store.write(certificate(subject))
    path.write_bytes(path.read_bytes()[:-20])
    assert store.find(subject) is None


def test_nothing_is_required_unless_the_entry_says_so(store: CertificateStore, subject: Subject) -> None:
    assert require(target(), subject, None) is None
    store.write(certificate(subject, text="failed"))
    recorded = require(target(), subject, store.find(subject))
    assert recorded is not None
    assert (recorded["is_conforming"], recorded["created_at"]) == (False, "2026-01-02T03:04:05Z")


@pytest.mark.parametrize(
    ("required", "verdicts", "is_enough"),
    [
        ((), {}, True),
        ((), {"regex": "refused"}, True),
        ((), {"regex": "failed"}, False),
        (("text",), {"regex": "failed"}, True),
        (("regex",), {"regex": "refused"}, False),
        (("regex", "text"), {}, True),
    ],
    ids=["all pass", "one is not supported", "one fails", "another fails", "the named is not supported", "both pass"],
)
def test_named_checks_must_have_passed_and_otherwise_none_may_have_failed(
    store: CertificateStore,
    subject: Subject,
    required: tuple[str, ...],
    verdicts: dict[str, str],
    is_enough: bool,
    wording: Wording,
) -> None:
    store.write(certificate(subject, **verdicts))
    wanted = target(requires_certificate=required)
    if is_enough:
        assert require(wanted, subject, store.find(subject)) is not None
        return
    with pytest.raises(Conflict) as refused:
        require(wanted, subject, store.find(subject))
    assert refused.value.code == "not_certified"
    wording(refused.value.message.replace(str(store.folder), "FOLDER"))


def test_a_missing_certificate_is_refused_with_what_to_type(subject: Subject, wording: Wording) -> None:
    with pytest.raises(Conflict) as refused:
        require(target(requires_certificate=()), subject, None)
    assert refused.value.code == "not_certified"
    wording(refused.value.message)
    wording(refused.value.cure)


def test_a_target_that_requires_nothing_has_the_digest_that_it_always_had() -> None:
    assert "requires_certificate" not in target().model_dump(mode="json")


REMOTE = """
import json, os, sys
environment = {"kind": sys.argv[1]}
print(json.dumps({"host": "127.0.0.1", "packages": {}, "environment": environment}), flush=True)
order = json.loads(sys.stdin.readline())
os.execvpe(order["argv"][0], order["argv"], {**os.environ, **order["env"]})
"""


@pytest.mark.anyio
@pytest.mark.parametrize(("kind", "measured_at"), [("remote", "tunnel"), ("docker", "engine")])
async def test_a_baseline_says_whether_it_was_measured_through_the_tunnel_to_a_rented_machine(
    kind: str, measured_at: str, tmp_path: Path
) -> None:
    (tmp_path / "launcher.py").write_text(REMOTE)
    launcher = (sys.executable, str(tmp_path / "launcher.py"), kind)
    options = GatewayOptions(environment=EngineEnvironment(launcher=launcher), log=tmp_path / "gateway.log")
    gateway = await GatewayClient.start(options)
    try:
        status = await gateway.load(LoadRequest(model="m", backend_class="simulated"))
        measured, where = _measured(status, gateway)
    finally:
        await gateway.close()
    assert status.measured_at == "engine"
    assert (measured.endpoint.url, where) == (f"{status.engine_url}/v1/chat/completions", measured_at)
