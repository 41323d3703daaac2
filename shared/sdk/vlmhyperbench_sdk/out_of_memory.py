"""Whether a text of an engine says that memory ran out, for the gateway that hears it and the worker that asks it."""

from __future__ import annotations

import re
from typing import Final

_OUT_OF_MEMORY: Final = re.compile(
    r"out of memory|outofmemory|cannot allocate memory|failed to allocate|unable to allocate|bad_alloc|\bMemoryError\b",
    re.IGNORECASE,
)


def says_out_of_memory(text: str) -> bool:
    """Return whether a text of an engine says that memory ran out."""
    return _OUT_OF_MEMORY.search(text) is not None
