"""The interpreter on which an environment is built."""

from __future__ import annotations

import json
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.environments import installer_commands
from vlmhyperbench.environments.installer import run_installer
from vlmhyperbench.environments.programs import Step, run_step
from vlmhyperbench.environments.store import EnvironmentStore
from vlmhyperbench.errors import InvalidInput, NotFound

_CONDA = "conda"
_ABOUT = "import json, platform, sys; print(json.dumps([sys.executable, platform.python_version()]))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """An interpreter of this machine, or the one that conda will bring, whose path is not known yet."""

    path: str
    version: str
    is_elsewhere: bool = False
    """Whether packages are resolved for an interpreter of this version on a rented machine."""


OWN_INTERPRETER = Interpreter(path=os.path.realpath(sys.executable), version=platform.python_version())
"""The interpreter behind the platform's own environment, so that no key depends on where that environment lies."""


async def find_interpreter(spec: VirtualenvSpec, store: EnvironmentStore, logs: Path) -> Interpreter:
    """Return the interpreter on which an environment is built; conda brings one of the version that is returned.

    Raises:
        NotFound: the machine has no such version.
        Unavailable: uv is missing.
    """
    if spec.manager == "conda":
        return Interpreter(path=_CONDA, version=spec.python or ".".join(platform.python_version_tuple()[:2]))
    if spec.python is None:
        return OWN_INTERPRETER
    store.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    step = Step(
        argv=installer_commands.find_python(spec.python),
        log=logs / "environment-python.log",
        cwd=store.folder,
        what=f"There is no Python {spec.python} on this machine",
        code="no_python",
        cure=f"Install Python {spec.python}, or leave out python in the environment's entry.",
    )
    try:
        path = (await run_installer(step)).strip().splitlines()[-1]
    except InvalidInput as error:
        raise NotFound(f"{step.what}.", cure=step.cure, code=step.code) from error
    about = Step(
        argv=[path, "-I", "-c", _ABOUT],
        log=step.log,
        cwd=step.cwd,
        what=f"{path} does not run",
        code=step.code,
        cure=step.cure,
    )
    executable, version = json.loads(await run_step(about))
    return Interpreter(path=executable, version=version)


def builder_of(spec: VirtualenvSpec, interpreter: Interpreter) -> Interpreter:
    """Return the interpreter that builds wheels for an environment; conda's is not there yet."""
    return OWN_INTERPRETER if spec.manager == "conda" else interpreter
