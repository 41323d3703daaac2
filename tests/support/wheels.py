"""Small wheels, made by hand, and a folder of them in place of an index, so that installers need no network."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import textwrap
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    needs: Sequence[str] = (),
    extras: Sequence[str] = (),
    code: str = "",
    entry_points: str = "",
) -> Path:
    """Write a wheel with one module of the same name."""
    info = f"{name}-{version}.dist-info"
    requires = "".join(f"Requires-Dist: {requirement}\n" for requirement in needs)
    provides = "".join(f"Provides-Extra: {extra}\n" for extra in extras)
    files = {
        f"{name}.py": code or f'VERSION = "{version}"\n',
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}{provides}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if entry_points:
        files[f"{info}/entry_points.txt"] = entry_points
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in files.items():
            wheel.writestr(file, text)
        wheel.writestr(f"{info}/RECORD", _record(files) + f"{info}/RECORD,,\n")
    return path


def _record(files: Mapping[str, str]) -> str:
    return "".join(
        f"{file},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},"
        f"{len(text.encode())}\n"
        for file, text in files.items()
    )


def make_source(folder: Path, name: str, version: str, *, build: str) -> Path:
    """Write a source distribution whose build runs `build`, a body of statements, and then gives an empty wheel."""
    wheel = make_wheel(folder.parent, name, version)
    body = textwrap.indent(build, "    ")
    backend = f"import shutil\ndef build_wheel(out, *_):\n{body}\n    shutil.copy({str(wheel)!r}, out)\n"
    files = {
        "PKG-INFO": f"Metadata-Version: 2.2\nName: {name}\nVersion: {version}\n",
        "backend.py": backend + f"    return {wheel.name!r}\n",
        "pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
        f"[project]\nname = '{name}'\nversion = '{version}'\n",
    }
    path = folder / f"{name}-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file, text in files.items():
            about = tarfile.TarInfo(f"{name}-{version}/{file}")
            about.size = len(text.encode())
            archive.addfile(about, io.BytesIO(text.encode()))
    return path
