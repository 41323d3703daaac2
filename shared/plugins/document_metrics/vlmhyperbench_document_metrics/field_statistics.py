"""Name the fields that a comparison counted, so that a table of fields can be made of any group."""

from __future__ import annotations

import re
from collections import Counter
from hashlib import sha256

from vlmhyperbench_document_metrics.fields import Tally

MAX_PATHS = 100
"""Paths of one sample that have a name of their own; each has two statistics."""
MAX_PATH_CHARS = 100
OTHERS = "*"
"""The path of all fields beyond those."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_DIGEST_CHARS = 8


def field_statistics(tally: Tally) -> dict[str, float]:
    """Return `right:<path>` and `expected:<path>` of the reference's fields, `right:items[].price` for one."""
    names = {path: _short(path) for path in tally.expected}
    for path in list(names)[MAX_PATHS - 1 :] if len(names) > MAX_PATHS else []:
        names[path] = OTHERS
    statistics: Counter[str] = Counter()
    for path, name in names.items():
        statistics[f"expected:{name}"] += tally.expected[path]
        statistics[f"right:{name}"] += tally.right[path]
    return {name: float(count) for name, count in statistics.items()}


def _short(path: str) -> str:
    """Make a path fit for a column's name; long ones keep their beginning and a digest."""
    storable = _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", path)
    if len(storable) <= MAX_PATH_CHARS:
        return storable
    digest = sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{storable[: MAX_PATH_CHARS - _DIGEST_CHARS - 1]}\N{HORIZONTAL ELLIPSIS}{digest}"
