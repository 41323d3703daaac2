"""Give an engine that reads a folder exactly the verified files of its model: a folder of links to them.

Engines read more of a model's folder than its listed files: a template of chats, defaults of generation, code. What
lies beside the verified files would change answers without a trace.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from vlmhyperbench.domain.digests import digest_of

_KEY_DIGITS = 16


def link_files(folder: Path, files: Mapping[str, Path]) -> dict[str, Path]:
    """Return the links to files in a folder that has nothing else; the same files always have the same folder.

    Args:
        folder: Where the folders of links lie.
        files: Name of each link → absolute path of the file.
    """
    targets = {name: str(path) for name, path in files.items()}
    home = folder / digest_of(dict(targets))[:_KEY_DIGITS]
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(home, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for entry in home.iterdir():
            if not entry.is_symlink() or targets.get(entry.name) != str(entry.readlink()):
                _remove(entry)
        for name in sorted(targets.keys() - {entry.name for entry in home.iterdir()}):
            (home / name).symlink_to(targets[name])
    finally:
        os.close(descriptor)
    return {name: home / name for name in targets}


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()
