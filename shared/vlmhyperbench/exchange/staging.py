"""Publish the files of an export atomically: they are written to temporary paths and renamed together at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vlmhyperbench.errors import Unavailable
from vlmhyperbench.files import destination, replace, temporary_sibling


class Staging:
    """The files of one export."""

    def __init__(self) -> None:
        self._moves: dict[Path, Path] = {}
        self._scratch: list[Path] = []
        self._folders: list[Path] = []

    def file(self, path: Path) -> Path:
        """Return a temporary path for the file that will be published at `path`; folders are created.

        Raises:
            InvalidInput: the destination is not a regular file.
        """
        self._make_folder(path.parent)
        temporary = temporary_sibling(destination(path))
        self._moves[temporary] = path
        return temporary

    def scratch(self, path: Path) -> Path:
        """Return a path for a temporary file that is needed to produce `path`."""
        self._make_folder(path.parent)
        self._scratch.append(temporary_sibling(path))
        return self._scratch[-1]

    @property
    def files(self) -> tuple[Path, ...]:
        """The published paths."""
        return tuple(self._moves.values())

    def publish(self) -> None:
        """Rename every file to its destination, replacing existing files."""
        for temporary, path in self._moves.items():
            replace(temporary, path)

    def clear(self, *, is_published: bool) -> None:
        """Remove all files that were not published."""
        for temporary in (*self._moves, *self._scratch):
            temporary.unlink(missing_ok=True)
        for folder in reversed(self._folders if not is_published else []):
            if not any(folder.iterdir()):
                folder.rmdir()

    def _make_folder(self, folder: Path) -> None:
        missing = [location for location in (folder, *folder.parents) if not location.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        self._folders += reversed(missing)


@contextmanager
def staged(out: Path) -> Iterator[Staging]:
    """Stage the files of an export to `out`: they are published if the block succeeds, and removed otherwise.

    Raises:
        Unavailable: the files cannot be written.
    """
    staging, is_published = Staging(), False
    try:
        try:
            yield staging
            staging.publish()
            is_published = True
        finally:
            staging.clear(is_published=is_published)
    except OSError as error:
        raise Unavailable(
            f"The export cannot be written to {out}: {error.strerror or error}.",
            cure="Free some space, or name another folder with --out.",
            code="cannot_write",
        ) from error
