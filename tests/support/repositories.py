"""Git repositories made by a test, with an adapter of the kind that somebody outside would write."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

PYPROJECT = """\
[build-system]
requires = []
build-backend = "building"
backend-path = ["."]

[project]
name = "{name}"
version = "{version}"
"""

BUILDING = """\
import base64, hashlib, pathlib, zipfile

def build_wheel(out, *_):
    name, version, points = {name!r}, {version!r}, {points!r}
    base = name.replace("-", "_") + "-" + version
    info = base + ".dist-info/"
    modules = [path for path in sorted(pathlib.Path().glob("*.py")) if path.name != "building.py"]
    files = {{path.name: path.read_bytes() for path in modules}}
    files[info + "METADATA"] = f"Metadata-Version: 2.1\\nName: {{name}}\\nVersion: {{version}}\\n".encode()
    files[info + "WHEEL"] = b"Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    files[info + "entry_points.txt"] = points.encode()
    record = ""
    for file, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
        record += f"{{file}},sha256={{digest}},{{len(text)}}\\n"
    files[info + "RECORD"] = (record + info + "RECORD,,\\n").encode()
    wheel = pathlib.Path(out, f"{{base}}-py3-none-any.whl")
    with zipfile.ZipFile(wheel, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return wheel.name
"""


def write_project(
    folder: Path,
    modules: Mapping[str, str],
    *,
    name: str = "my-bench",
    version: str = "1.0.0",
    backends: Mapping[str, str] | None = None,
) -> Path:
    """Write a package that builds without an index: its modules, and the backends that it registers."""
    folder.mkdir(parents=True, exist_ok=True)
    points = "[vlmhyperbench.backends]\n" + "".join(f"{key} = {value}\n" for key, value in (backends or {}).items())
    (folder / "pyproject.toml").write_text(PYPROJECT.format(name=name, version=version))
    (folder / "building.py").write_text(BUILDING.format(name=name, version=version, points=points if backends else ""))
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)
    return folder


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder as somebody who has no configuration."""
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "HOME": str(folder)}
    who = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.com")
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, env={**os.environ, **alone}, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(folder: Path, message: str = "Change it") -> str:
    """Commit everything in a folder, which becomes a repository if it is none; return the commit."""
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD")
