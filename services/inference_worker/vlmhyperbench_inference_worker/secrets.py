"""Read secret values for a run: files of mode 0600 in one folder, by name; values live in memory only."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable
from pathlib import Path

from vlmhyperbench_sdk.errors import InvalidInput, NotFound

_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")
_MAX_BYTES = 16 * 1024


def read_secrets(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return name → value for every named secret.

    Raises:
        NotFound: there is no such file.
        InvalidInput: the name is no slug, others may read the file, or its text is no header value.
    """
    return {name: _read(folder, name) for name in names}


def _read(folder: Path, name: str) -> str:
    if not _NAME.match(name):
        raise InvalidInput(f"{name!r} is not the name of a secret.", cure="Use letters, digits and '_'.")
    path = folder / name
    try:
        status = path.lstat()
    except OSError as error:
        cure = f"Run `vlmhyperbench secret set {name}` on the worker's machine, or write {path} with mode 0600."
        raise NotFound(f"The secret {name!r} does not exist on this worker.", cure=cure) from error
    if not stat.S_ISREG(status.st_mode) or stat.S_IMODE(status.st_mode) & 0o077:
        raise InvalidInput(f"The secret {name!r} may be read by others.", cure=f"Run: chmod 600 {path}")
    if status.st_size > _MAX_BYTES:
        raise InvalidInput(f"The secret {name!r} is larger than {_MAX_BYTES} bytes.", cure="Store only the value.")
    try:
        value = path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"The secret {name!r} is not UTF-8.", cure=f"Write its text to {path} as UTF-8.") from error
    except OSError as error:
        raise InvalidInput(
            f"The secret {name!r} cannot be read: {error.strerror}.", cure=f"Run: chmod 600 {path}"
        ) from error
    if not value or any(ord(character) < 32 for character in value):
        raise InvalidInput(f"The secret {name!r} is empty or holds control characters.", cure="Store one line of text.")
    return value
