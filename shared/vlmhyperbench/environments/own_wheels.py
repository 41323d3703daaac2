"""The platform's own wheels, made from what is installed, so that its gateway runs in an environment of its own.

The gateway, the library that it uses and the SDK are pure Python. Their wheels are made anew from the modules that this
process imports and the metadata of their distributions, which is the same for a checkout and for an installed wheel:
the gateway in the environment is exactly the gateway of this platform.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, distribution, distributions
from importlib.util import find_spec
from pathlib import Path

from vlmhyperbench.domain.digests import KEY_LENGTH
from vlmhyperbench.environments.store import EnvironmentStore
from vlmhyperbench.errors import NotFound

GATEWAY = ("vlmhyperbench-gateway", "vlmhyperbench", "vlmhyperbench-sdk")
"""The distributions of the platform that a gateway needs."""

_OLDEST = (1980, 1, 1, 0, 0, 0)
"""The time of every file, so that equal content gives an equal wheel."""
_METADATA = ("METADATA", "WHEEL", "entry_points.txt")


def own_requirements(names: Iterable[str], store: EnvironmentStore) -> list[str]:
    """Return the platform's own distributions as requirements: wheels of this machine, which may not be there.

    Raises:
        NotFound: one is not installed.
    """
    lines = []
    for name in names:
        base, _, key = _content(name)
        lines.append(f"{name} @ {(store.wheels_folder / key / _file_of(base)).as_uri()}")
    return lines


@asynccontextmanager
async def held_own_wheels(names: Iterable[str], store: EnvironmentStore) -> AsyncIterator[list[Path]]:
    """Write wheels of the platform's own distributions, unless they are there, and yield them; they stay in the block.

    Raises:
        NotFound: one is not installed.
    """
    async with AsyncExitStack() as held:
        yield [
            await held.enter_async_context(store.held_wheel(_content(name)[2], partial(_write, name))) for name in names
        ]


@cache
def installed_versions() -> dict[str, str]:
    """Return distribution → version of everything that the platform runs with."""
    return {dist.name: dist.version for dist in distributions() if not dist.name.startswith("vlmhyperbench")}


@cache
def _content(name: str) -> tuple[str, dict[str, bytes], str]:
    """Return a wheel's name, its files but for the record, and their hash; once, as this process runs what it imported.

    Raises:
        NotFound: the distribution is not installed.
    """
    spec = find_spec(name.replace("-", "_"))
    try:
        about = distribution(name)
    except PackageNotFoundError:
        about = None
    if spec is None or spec.origin is None or about is None:
        cure = f"pip install {name}"
        raise NotFound(f"{name} is not installed, which an environment needs.", cure=cure, code="not_installed")
    base = f"{name.replace('-', '_')}-{about.version}"
    metadata = {f"{base}.dist-info/{file}": (about.read_text(file) or "").encode() for file in _METADATA}
    files = {**dict(_modules(Path(spec.origin).parent)), **{file: text for file, text in metadata.items() if text}}
    lines = "".join(f"{file}\0{hashlib.sha256(content).hexdigest()}\n" for file, content in files.items())
    return base, files, hashlib.sha256(lines.encode()).hexdigest()[:KEY_LENGTH]


async def _write(name: str, made: Path) -> Path:
    """Write a wheel into a new folder, which is returned."""
    base, files, _ = _content(name)
    record = "".join(f"{file},sha256={_record_hash(content)},{len(content)}\n" for file, content in files.items())
    recorded = f"{base}.dist-info/RECORD"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, content in {**files, recorded: f"{record}{recorded},,\n".encode()}.items():
            archive.writestr(zipfile.ZipInfo(file, _OLDEST), content, zipfile.ZIP_DEFLATED)
    folder = made / "wheel"
    folder.mkdir()
    (folder / _file_of(base)).write_bytes(packed.getvalue())
    return folder


def _file_of(base: str) -> str:
    return f"{base}-py3-none-any.whl"


def _modules(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"{folder.name}/{path.relative_to(folder).as_posix()}", path.read_bytes()


def _record_hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
