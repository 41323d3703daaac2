"""A conda channel in a folder: real packages made by hand, one of them this machine's Python, indexed by py-rattler."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import platform
import sys
import sysconfig
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rattler import Subdir
from rattler.index import index_fs

VERSION = platform.python_version()
SERIES = ".".join(VERSION.split(".")[:2])
_LEFT_OUT = {
    *("test", "tests", "idlelib", "idle_test", "tkinter", "turtledemo", "lib2to3", "ensurepip", "pydoc_data"),
    *("site-packages", "dist-packages", "__pycache__"),
}


def make_conda(
    channel: Path,
    name: str,
    version: str,
    files: Mapping[str, bytes | Path],
    *,
    build: str = "0",
    subdir: str | None = None,
    needs: Sequence[str] = (),
    noarch: str | None = None,
) -> Path:
    """Write a package; a file is bytes, a file to copy, or a relative path, which becomes a symbolic link."""
    folder = channel / (subdir or ("noarch" if noarch else str(Subdir.current())))
    folder.mkdir(parents=True, exist_ok=True)
    index = {"name": name, "version": version, "build": build, "build_number": 0, "depends": list(needs)}
    index |= {"subdir": folder.name, "noarch": noarch} if noarch else {"subdir": folder.name}
    path = folder / f"{name}-{version}-{build}.tar.bz2"
    listed = []
    with tarfile.open(path, "w:bz2", compresslevel=1) as archive:
        for file, content in files.items():
            is_link = isinstance(content, Path) and not content.is_absolute()
            about = tarfile.TarInfo(file)
            if is_link:
                about.type, about.linkname = tarfile.SYMTYPE, str(content)
                archive.addfile(about)
                data = (Path(file).parent / str(content)).as_posix().encode()
            else:
                data = content.read_bytes() if isinstance(content, Path) else content
                about.size, about.mode = len(data), 0o755 if file.startswith("bin/") else 0o644
                archive.addfile(about, io.BytesIO(data))
            kind = "softlink" if is_link else "hardlink"
            entry = {"_path": file, "path_type": kind, "size_in_bytes": len(data)}
            listed.append(entry | ({} if is_link else {"sha256": hashlib.sha256(data).hexdigest()}))
        for file, document in (("index", index), ("paths", {"paths": listed, "paths_version": 1})):
            data = json.dumps(document).encode()
            about = tarfile.TarInfo(f"info/{file}.json")
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
    return path


def make_python(channel: Path) -> None:
    """Write a package of the Python that runs the tests, without what no engine needs."""
    library = Path(sysconfig.get_path("stdlib"))
    binary = Path(sys.base_prefix) / "bin" / f"python{SERIES}"
    shared = Path(sysconfig.get_config_var("LIBDIR") or "") / str(sysconfig.get_config_var("INSTSONAME"))
    files: dict[str, bytes | Path] = {
        f"lib/python{SERIES}/{path.relative_to(library).as_posix()}": path.resolve()
        for path in sorted(library.rglob("*"))
        if path.is_file() and not _LEFT_OUT & set(path.relative_to(library).parts) and path.suffix != ".a"
    }
    files[f"bin/python{SERIES}"] = binary.resolve()
    files["bin/python"] = Path(f"python{SERIES}")
    if shared.suffix != ".a" and shared.is_file():
        files[f"lib/{shared.name}"] = shared.resolve()
    make_conda(channel, "python", VERSION, files, build="h0")


def index(channel: Path) -> None:
    """Write what a channel says of its packages."""
    (channel / "noarch").mkdir(parents=True, exist_ok=True)
    asyncio.run(index_fs(channel, write_zst=False, write_shards=False, force=True))
