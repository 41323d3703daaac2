"""Resolve an environment to a list of all its packages with their hashes, which is kept and whose hash names it."""

from __future__ import annotations

import re
import sysconfig
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from vlmhyperbench.domain.digests import digest_of, short_key
from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.environments import installer_commands
from vlmhyperbench.environments.base import Tell
from vlmhyperbench.environments.conda_lines import conda_packages, python_version
from vlmhyperbench.environments.installer import run_installer
from vlmhyperbench.environments.interpreters import OWN_INTERPRETER, Interpreter
from vlmhyperbench.environments.own_wheels import installed_versions, own_requirements
from vlmhyperbench.environments.programs import Step
from vlmhyperbench.environments.store import EnvironmentStore
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.files import replacing

CORRECT = "Correct requirements, packages and overrides of the environment in the entry that declares it."
_NAMED = 3
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE)
_PINNED_WHEEL = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])? @ file://\S*/([^/\s]+\.whl)", re.MULTILINE)


def spec_key(
    spec: VirtualenvSpec, interpreter: Interpreter, store: EnvironmentStore, *, own: Collection[str] = ()
) -> str:
    """Return the name under which the resolution of a spec is kept; `own` are distributions of the platform."""
    platform = installer_commands.RENTED_PLATFORM if interpreter.is_elsewhere else sysconfig.get_platform()
    return short_key([digest_of(spec), interpreter.version, platform, *own_requirements(own, store)])


def environment_key(spec: VirtualenvSpec, interpreter: Interpreter, resolved: str) -> str:
    """Return the key of an environment: specs that resolve to the same packages share one."""
    return short_key([resolved, interpreter.path, interpreter.version, spec.manager, sysconfig.get_platform()])


def packages_of(resolved: str) -> dict[str, str]:
    """Return distribution → version of resolved packages; those from channels are named `conda:NAME`."""
    wheels = {name: file.split("-")[1] for name, file in _PINNED_WHEEL.findall(resolved)}
    return {**conda_packages(resolved), **dict(_PINNED.findall(resolved)), **wheels}


def names_of(spec: VirtualenvSpec) -> str:
    """Return the first packages, by which a message names an environment."""
    names = [*(f"{package.name} ({package.origin})" for package in spec.packages), *spec.requirements]
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


async def resolved(
    spec: VirtualenvSpec,
    lines: Sequence[str],
    interpreter: Interpreter,
    workshop: Workshop,
    *,
    own: Collection[str],
    tell: Tell,
) -> str:
    """Return the packages to which a spec is resolved; the first resolution on a machine is kept.

    Args:
        spec: The environment.
        lines: What it needs directly, as requirements.
        interpreter: The interpreter that it is for.
        workshop: Where the list is kept, and the log.
        own: Distributions of the platform among them. They prefer the versions with which the platform runs, where the
            other requirements allow them.
        tell: Is told what takes time.

    Raises:
        InvalidInput: no set of packages fits.
        Unavailable: an index does not answer, uv is missing, or the disk is full.
    """
    store = workshop.store
    name = spec_key(spec, interpreter, store, own=own)
    file = store.resolved_file(name)
    if file.is_file():
        return file.read_text(encoding="utf-8")
    async with store.held(f"{name}.resolved"):
        if not file.is_file():
            await tell("resolving", None)
            preferred = installed_versions() if own else {}
            with tempfile.TemporaryDirectory(dir=store.folder, prefix=".resolving-") as made, replacing(file) as out:
                log = workshop.logs / f"environment-{name}.log"
                whole = await _resolve(spec, lines, interpreter, Path(made), log, preferred=preferred)
                out.write_text(whole, encoding="utf-8")
        return file.read_text(encoding="utf-8")


async def _resolve(
    spec: VirtualenvSpec,
    lines: Sequence[str],
    interpreter: Interpreter,
    made: Path,
    log: Path,
    *,
    preferred: Mapping[str, str],
) -> str:
    """Pin every package, those of conda first, since they bring the interpreter for which the others are resolved."""
    what = f"The environment of {names_of(spec)} cannot be resolved"

    async def run(argv: Sequence[str]) -> None:
        code = "environment_unresolvable"
        await run_installer(Step(argv=argv, log=log, cwd=made, what=what, code=code, cure=CORRECT))

    requirements, overrides, out = made / "requirements.txt", made / "overrides.txt", made / "resolved.txt"
    requirements.write_text("\n".join(lines) + "\n", encoding="utf-8")
    overrides.write_text("\n".join(spec.overrides) + "\n", encoding="utf-8")
    # uv reads what is in its output already as preferences.
    out.write_text("".join(f"{name}=={version}\n" for name, version in preferred.items()), encoding="utf-8")
    python, version, conda = interpreter.path, None, ""
    if spec.manager == "conda":
        listed = made / "conda.txt"
        await run(installer_commands.resolve_conda(spec.conda, spec.channels, python=interpreter.version, out=listed))
        conda = listed.read_text(encoding="utf-8")
        python, version = OWN_INTERPRETER.path, python_version(conda)
    given, rented = overrides if spec.overrides else None, None
    if interpreter.is_elsewhere:
        version, rented = interpreter.version, installer_commands.RENTED_PLATFORM
    await run(
        installer_commands.resolve(
            requirements, given, python=python, out=out, python_version=version, python_platform=rented
        )
    )
    return conda + out.read_text(encoding="utf-8")
