"""`envs check`: check a backend on this machine, measure it, and write a certificate, which runs may require."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from vlmhyperbench.certifying.certificates import BackendCertificate, CertificateStore, Level, Measured
from vlmhyperbench.cli import exits
from vlmhyperbench.cli.bringing import bring_model
from vlmhyperbench.cli.choices import read_param
from vlmhyperbench.cli.fetching import open_cache
from vlmhyperbench.cli.groups import SELECTION, TARGET, WORKLOAD
from vlmhyperbench.cli.output import byte_teller, emit, note, say, table, teller
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.registry import open_catalogue
from vlmhyperbench.cli.resolving import load_request, resolve_model
from vlmhyperbench.cli.run_flags import Repeatable
from vlmhyperbench.data.sending import send_model
from vlmhyperbench.data.weights import cached_files
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.environments.targets import prepared_target
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.gateway import GatewayOptions

_VERDICTS = {"passed": "passed", "failed": "FAILED", "refused": "not supported", "not_run": "not run"}


def check(
    backend: str,
    /,
    *,
    model: Annotated[str | None, Parameter(group=TARGET)] = None,
    engine_param: Annotated[Repeatable, Parameter(group=TARGET)] = (),
    load_timeout: Annotated[float, Parameter(group=TARGET)] = 600.0,
    show: Annotated[bool, Parameter(group=SELECTION)] = False,
    no_baseline: Annotated[bool, Parameter(group=WORKLOAD)] = False,
    output: OutputFlags = TEXT,
) -> int:
    """Check that a backend does what it promises here, measure its speed, and write a certificate.

    What the engine refuses by name is not supported, which is no failure. Exit code: 0 if no check failed, 5 if one
    did. The certificate holds for this environment, version of the adapter and machine; entries with
    requires_certificate need it. On a machine with several GPUs it is the first one, or that of VLMHB_DEVICES, and the
    certificate holds for the worker of that GPU.

    Args:
        backend: Name of the backend.
        model: Registered model, or folder:FOLDER, hf:ORG/NAME or a GGUF file as in `run`; by default a small model that
            is installed with the platform and runs on the backend.
        engine_param: Parameter of the engine, NAME=VALUE; may be given several times.
        load_timeout: Seconds after which starting the engine counts as failed.
        show: Print the newest certificates of the backend instead, and check nothing.
        no_baseline: Do not measure the speed.
        output: How the output is printed.
    """
    settings, catalogue = Settings.load(), open_catalogue()
    catalogue.look_up(catalogue.backends, "backends", backend)
    store = CertificateStore(settings.certificates_dir)
    if show:
        return _show(store.of_backend(backend), backend, output)
    name = model or _small_model(catalogue, backend)
    if model is not None:
        registered = bring_model(model, mmproj=None, backend=backend, output=output)
        name = registered.name if registered is not None else model
    environment = settings.engine_environment
    target = resolve_model(name, backend, dict(map(read_param, engine_param)), adapters=environment.adapters)
    certificate = asyncio.run(_certify(settings, target, load_timeout, with_baseline=not no_baseline, output=output))
    return _show([(store.write(certificate), certificate)], backend, output)


async def _certify(
    settings: Settings, target: ModelTarget, load_timeout_s: float, *, with_baseline: bool, output: OutputFlags
) -> BackendCertificate:
    from vlmhyperbench.certifying.checking import Candidate, certify  # imports the HTTP client and the load generator's
    from vlmhyperbench.worker.devices import show_only
    from vlmhyperbench.worker.machine import machine
    from vlmhyperbench.worker.shares import shares_of_machine

    if settings.inventory is not None:
        raise InvalidInput(
            "A certificate needs real devices, and VLMHB_INVENTORY declares some.", cure="Unset VLMHB_INVENTORY."
        )
    seen = shares_of_machine(settings, name=target.backend)[0].devices  # what one worker of this machine has
    show_only(seen)
    cache, logs = open_cache(), settings.logs_dir

    def report(line: str) -> None:
        note(f"{target.backend}: {line}", output)

    workshop, tell = Workshop.of(settings), teller(output, target.backend)
    block = prepared_target(target, settings.engine_environment, workshop, tell=tell)
    with cache.in_use(cached_files(target.files)):
        async with block as ready:
            request = load_request(target, cache, load_timeout_s)
            told = byte_teller(output, target.backend)
            await send_model(ready.rented, target.files, request.files, settings, sent=told)
            candidate = Candidate(
                target=target,
                request=request,
                options=GatewayOptions(
                    environment=ready.environment,
                    log=logs / "check.log",
                    engine_log=logs / "check-engine.log",
                    lock_fds=ready.lock_fds,
                ),
                environment=ready.used or {},
                machine=machine(seen),
            )
            return await certify(candidate, report=report, with_baseline=with_baseline)


def _small_model(catalogue: Catalogue, backend: str) -> str:
    """Return the first model of a backend whose files are installed with the platform, or that needs none.

    Raises:
        NotFound: there is none.
    """
    fitting = [
        name
        for name, entry in sorted(catalogue.models.items())
        if backend in entry.backends and not entry.is_brought and entry.path is None
    ]
    if not fitting:
        cure = "Give --model, for example --model folder:FOLDER; `vlmhyperbench models list` lists the registered ones."
        raise NotFound(f"No installed model runs on the backend {backend!r}.", cure=cure, code="no_model")
    return fitting[0]


def _show(found: Sequence[tuple[Path, BackendCertificate]], backend: str, output: OutputFlags) -> int:
    """Print certificates; the exit code is that of the first.

    Raises:
        NotFound: there is none.
    """
    if not found:
        cure = f"Run `vlmhyperbench envs check {backend}`."
        raise NotFound(f"The backend {backend!r} has no certificate on this machine.", cure=cure, code="no_certificate")
    if output.json:
        emit("certificates", [{"file": str(path), **asdict(certificate)} for path, certificate in found])
    else:
        for path, certificate in found:
            _print(path, certificate)
    return exits.OK if found[0][1].conformance.is_conforming else exits.GATE


def _print(path: Path, certificate: BackendCertificate) -> None:
    conformance, subject = certificate.conformance, certificate.subject
    say(f"{subject.backend}: {conformance.engine} {conformance.engine_version}, {subject.adapter or 'no adapter'}")
    environment = certificate.environment
    say(f"environment: {environment.get('kind')} {environment.get('key')}, Python {environment.get('python_version')}")
    say(f"model: {conformance.model}; checked {conformance.created_at} on {certificate.host}")
    rows = [
        (check.name, _VERDICTS[check.verdict], f"{check.seconds:.2f}", check.reason or None)
        for check in conformance.checks
    ]
    table(["check", "result", "s", "reason"], rows, right=["s"])
    if certificate.baseline:
        columns = ["in flight", "TTFT ms", "TPOT ms", "tokens/s", "measured at"]
        table(columns, [_level(level) for level in certificate.baseline], right=columns[:-1])
    failed = [check.name for check in conformance.checks if check.verdict == "failed"]
    say(f"It does not conform: {', '.join(failed)}." if failed else "It conforms.")
    say(f"certificate: {path}")


def _level(level: Level) -> tuple[object, ...]:
    spans = (_span(level.ttft_ms), _span(level.tpot_ms), _span(level.output_tokens_per_s))
    invalid = "" if level.valid else f", INVALID: {', '.join(level.failed_gates)}"
    return (level.in_flight, *spans, level.measured_at + invalid)


def _span(figure: Measured) -> str | None:
    if figure.mean is None:
        return None
    if figure.low is None or figure.high is None:
        return f"{figure.mean:.4g}"
    return f"{figure.mean:.4g} [{figure.low:.4g}, {figure.high:.4g}]"
