"""Read a machine's secrets: one file of mode 0600 per secret, named after it, in one folder; values stay in memory."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from vlmhyperbench_sdk.endpoint import NAMES_OF_SECRETS
from vlmhyperbench_sdk.errors import InvalidInput, NotFound

MAX_SECRET_BYTES: Final = 16 * 1024


def is_secret_name(name: str) -> bool:
    """Return whether a secret may have this name."""
    return re.fullmatch(NAMES_OF_SECRETS, name) is not None


def is_secret_value(value: str) -> bool:
    """Return whether a secret may have this value: one line, not empty, at most `MAX_SECRET_BYTES` long."""
    return 0 < len(value.encode()) <= MAX_SECRET_BYTES and not any(ord(character) < 32 for character in value)


def read_secrets(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return name → value for every named secret.

    Raises:
        NotFound: the secret has no file.
        InvalidInput: the name is not allowed, other users may read the file, or its text cannot be a header value.
    """
    return {name: read_secret(folder, name) for name in names}


def read_secret(folder: Path, name: str) -> str:
    """Return the value of a secret.

    Raises:
        NotFound: the secret has no file.
        InvalidInput: the name is not allowed, other users may read the file, or its text cannot be a header value.
    """
    if not is_secret_name(name):
        raise InvalidInput(f"{name!r} is not a name of a secret.", cure="Use letters, digits and '_'.")
    path = folder / name
    try:
        status = path.lstat()
    except OSError as error:
        cure = f"Run `vlmhyperbench secret set {name}` on the worker's machine, or write {path} with mode 0600."
        raise NotFound(f"The secret {name!r} does not exist on this machine.", cure=cure) from error
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInput(f"The secret {name!r} is no regular file.", cure=f"Write its value to {path} itself.")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise InvalidInput(f"The secret {name!r} may be read by others.", cure=f"Run: chmod 600 {path}")
    if status.st_size > MAX_SECRET_BYTES:
        raise InvalidInput(f"The secret {name!r} has more than {MAX_SECRET_BYTES} bytes.", cure="Store only the value.")
    try:
        value = path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"The secret {name!r} is not UTF-8.", cure=f"Write its text to {path} as UTF-8.") from error
    except OSError as error:
        raise InvalidInput(
            f"The secret {name!r} cannot be read: {error.strerror}.", cure=f"Run: chmod 600 {path}"
        ) from error
    if not is_secret_value(value):
        raise InvalidInput(f"The secret {name!r} is empty or holds control characters.", cure="Store one line of text.")
    return value
