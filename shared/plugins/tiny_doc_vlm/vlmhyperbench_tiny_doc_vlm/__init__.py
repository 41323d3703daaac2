"""The files of tiny-doc-vlm, a vision-language model of 1.87 M parameters that reads small documents.

The files are package data, a folder for each version; this module gives their paths and hashes.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["CONTEXT_TOKENS", "FIRST", "NAME", "names", "path", "sha256", "versions"]

NAME = "tiny-doc-vlm"
"""Prefix of the names of its GGUF files."""
CONTEXT_TOKENS = 1024
"""Maximum number of tokens of a prompt and its answer, in every version."""
FIRST = "0.1"
"""The default version; it does not change, because models are pinned by hash."""
_FILES = Path(__file__).parent / "files"
_SUMS = "SHA256SUMS"


def versions() -> list[str]:
    """Return every version of the model, the oldest first."""
    folders = (sums.parent.name for sums in _FILES.glob(f"*/{_SUMS}"))
    return sorted(folders, key=lambda version: [int(part) for part in version.split(".")])


def names(version: str = FIRST) -> list[str]:
    """Return every file of a version, sorted.

    Raises:
        KeyError: there is no such version; the message lists those that there are.
    """
    return sorted(_read_sums(version))


def path(name: str, version: str = FIRST) -> Path:
    """Return the absolute path of a file, such as `tiny-doc-vlm-f16.gguf`.

    Raises:
        KeyError: there is no such version, or it has no such file; the message lists those that there are.
    """
    sha256(name, version)
    return _FILES / version / name


def sha256(name: str, version: str = FIRST) -> str:
    """Return the SHA-256 that a file must have, 64 hex digits.

    Raises:
        KeyError: there is no such version, or it has no such file; the message lists those that there are.
    """
    sums = _read_sums(version)
    if name not in sums:
        raise KeyError(f"tiny-doc-vlm {version} has no file {name!r}. It has: {', '.join(sorted(sums))}.")
    return sums[name]


def _read_sums(version: str) -> dict[str, str]:
    if version not in versions():
        raise KeyError(f"tiny-doc-vlm has no version {version!r}. It has: {', '.join(versions())}.")
    lines = (_FILES / version / _SUMS).read_text(encoding="ascii").splitlines()
    return {name: digest for digest, name in (line.split(maxsplit=1) for line in lines)}
