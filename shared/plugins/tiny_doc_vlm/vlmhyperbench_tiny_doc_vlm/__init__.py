"""The files of tiny-doc-vlm, a vision-language model of 1.87 M parameters that reads small documents.

The files are package data; this module only says where they are and what they must hash to.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["names", "path", "sha256"]

_FILES = Path(__file__).parent / "files"
_SUMS = _FILES / "SHA256SUMS"


def names() -> list[str]:
    """Every file of the model, sorted."""
    return sorted(_read_sums())


def path(name: str) -> Path:
    """Return the absolute path of a file, as `tiny-doc-vlm-f16.gguf`.

    Raises:
        KeyError: the model has no such file; the message lists those that it has.
    """
    _known(name)
    return _FILES / name


def sha256(name: str) -> str:
    """Return the SHA-256 that a file must have, 64 hex digits.

    Raises:
        KeyError: the model has no such file; the message lists those that it has.
    """
    return _known(name)


def _known(name: str) -> str:
    sums = _read_sums()
    if name not in sums:
        raise KeyError(f"tiny-doc-vlm has no file {name!r}. It has: {', '.join(sorted(sums))}.")
    return sums[name]


def _read_sums() -> dict[str, str]:
    lines = _SUMS.read_text(encoding="ascii").splitlines()
    return {name: digest for digest, name in (line.split(maxsplit=1) for line in lines)}
