"""The cure for a name that is not known: the similar names, or all of them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable


def did_you_mean(name: str, known: Iterable[str], *, nothing: str = "None is registered.") -> str:
    """Suggest similar names, or list all names if none is similar; `nothing` is the answer where no name is known."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return choose(names) if names else nothing


def choose(names: Collection[str]) -> str:
    """List the names of which one is to be written."""
    return f"Write {next(iter(names))}." if len(names) == 1 else f"Choose one of {', '.join(names)}."
