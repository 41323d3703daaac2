"""The command lines that resolve and install packages: lists of arguments, never a shell's string."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from vlmhyperbench.environments.programs import PROGRAM_VARIABLES
from vlmhyperbench.extras import needed_for

Manager = Literal["uv", "pip", "conda"]

INSTALLER_VARIABLES = (
    *PROGRAM_VARIABLES,
    *("NETRC", "CC", "CXX", "CUDA_HOME"),
    *("UV_INDEX*", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_NO_INDEX", "UV_OFFLINE"),
    *("UV_CONFIG_FILE", "UV_NO_CONFIG", "UV_CACHE_DIR", "UV_NO_CACHE", "UV_LINK_MODE", "UV_HTTP_*", "UV_CONCURRENT_*"),
    *("UV_KEYRING_PROVIDER", "UV_SYSTEM_CERTS", "UV_NATIVE_TLS", "UV_INSECURE_HOST", "UV_EXCLUDE_NEWER"),
    *("UV_TORCH_BACKEND", "UV_PYTHON_INSTALL_DIR", "UV_PYTHON_PREFERENCE", "UV_NO_BUILD*"),
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_TRUSTED_HOST", "PIP_CERT"),
    *("PIP_CLIENT_CERT", "PIP_CONFIG_FILE", "PIP_CACHE_DIR", "PIP_PROXY", "PIP_RETRIES", "PIP_DEFAULT_TIMEOUT"),
    *("CONDA_CHANNEL_ALIAS", "CONDA_OVERRIDE_*", "RATTLER_CACHE_DIR", "RATTLER_AUTH_FILE"),
)
"""Variables of the caller that an installer inherits; index and folders of wheels come only from them."""

RENTED_PLATFORM = "x86_64-unknown-linux-gnu"
"""Platform of rented machines."""

_QUIET = ("--no-progress", "--color", "never", "--no-python-downloads")


def uv_program() -> str:
    """Return the path of the program uv, which is a dependency.

    Raises:
        Unavailable: it is not installed; code `not_installed`.
    """
    with needed_for("An environment of an engine", extra="environments"):
        from uv import find_uv_bin
    return str(find_uv_bin())


def find_python(version: str) -> list[str]:
    """Return the command that prints the path of an interpreter of the machine."""
    return [uv_program(), "python", "find", "--system", "--no-project", *_QUIET, version]


def resolve(
    requirements: Path,
    overrides: Path | None,
    *,
    python: str,
    out: Path,
    python_version: str | None = None,
    python_platform: str | None = None,
) -> list[str]:
    """Return the command that pins every package, with hashes, for one interpreter of this machine.

    `python_version` and `python_platform` are those of another interpreter, for which the packages are meant.
    """
    override = ["--override", str(overrides)] if overrides is not None else []
    version = ["--python-version", python_version] if python_version is not None else []
    version += ["--python-platform", python_platform] if python_platform is not None else []
    return [
        *(uv_program(), "pip", "compile", *_QUIET, "--python", python, *version, *_find_links(), *override),
        *("--generate-hashes", "--no-header", "--no-annotate", "--output-file", str(out), str(requirements)),
    ]


def build_wheel(source: Path, *, python: str, out: Path) -> list[str]:
    """Return the command that builds the wheel of a folder, with what its own pyproject.toml needs for that."""
    return [
        *(uv_program(), "build", "--wheel", *_QUIET, "--python", python, *_find_links()),
        *("--out-dir", str(out), str(source)),
    ]


def create(folder: Path, *, python: str, manager: Manager) -> list[str]:
    """Return the command that creates an empty environment; one for pip has the pip of its interpreter."""
    if manager == "pip":
        return [python, "-I", "-m", "venv", "--clear", str(folder)]
    return [uv_program(), "venv", *_QUIET, "--no-project", "--clear", "--python", python, str(folder)]


def install(resolved: Path, *, python: str, manager: Manager) -> list[str]:
    """Return the command that installs exactly the resolved packages, each checked by its hash."""
    if manager == "pip":
        quiet = ("--no-input", "--disable-pip-version-check", "--progress-bar", "off")
        return [python, "-I", "-m", "pip", "install", *quiet, "--no-deps", "--require-hashes", "-r", str(resolved)]
    return [
        *(uv_program(), "pip", "install", *_QUIET, "--python", python, *_find_links()),
        *("--no-deps", "--require-hashes", "--compile-bytecode", "-r", str(resolved)),
    ]


def resolve_conda(packages: Sequence[str], channels: Sequence[str], *, python: str, out: Path) -> list[str]:
    """Return the command that pins Python and every conda package, with hashes, for this machine."""
    listed = [word for channel in channels for word in ("--channel", channel)]
    return [*_conda_program(), "resolve", *listed, "--out", str(out), f"python=={python}", *packages]


def install_conda(resolved: Path, folder: Path) -> list[str]:
    """Return the command that creates an environment of exactly the resolved conda packages."""
    return [*_conda_program(), "install", str(resolved), str(folder)]


def _conda_program() -> Sequence[str]:
    with needed_for("An environment by conda", extra="conda"):
        import rattler  # noqa: F401 -- only whether it is there; a child imports it
    return (sys.executable, "-I", "-m", "vlmhyperbench.environments.conda_program")


def _find_links() -> Sequence[str]:
    """Pass on pip's variable, which uv does not read: it names folders or URLs of wheels, separated by spaces."""
    return [word for place in os.environ.get("PIP_FIND_LINKS", "").split() for word in ("--find-links", place)]
